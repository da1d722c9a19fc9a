"""The connection to one engine: docker-py's client over TLS, TCP or a Unix socket.

docker-py brings the transports and the version negotiation. Its ``APIClient`` is a
``requests.Session``; ``transport`` sends the calls through it.
"""

from __future__ import annotations

import math
import ssl
import tempfile
from pathlib import Path
from typing import Any

import docker
import requests
from docker.tls import TLSConfig
from requests.adapters import HTTPAdapter

from engines.contract import EngineAddress, TlsMaterial

POOL_SIZE = 64
"""Idle connections kept per engine: more than the threads of one worker process."""

USER_AGENT = "miabi"


class EngineClient(docker.APIClient):
    """An ``APIClient`` that goes straight to the engine.

    Proxies and ``.netrc`` of the control plane's own environment are for its traffic to
    the internet: an engine's address is where the engine is.
    """

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        self.trust_env = False
        return super().request(*args, **kwargs)


def build_client(address: EngineAddress) -> EngineClient:
    """Connect to ``address`` and agree on the API version: one call to ``/version``.

    Raises whatever docker-py, requests or ssl raise; ``errors.from_exception`` sorts it.
    """
    client = EngineClient(
        base_url=address.url,
        version="auto",
        timeout=max(1, math.ceil(address.timeout_s)),
        tls=PemTls(address.tls) if address.tls else False,
        user_agent=USER_AGENT,
        max_pool_size=POOL_SIZE,
    )
    # The engine's answers are read as they arrive, chunk by chunk: no compression.
    client.headers["Accept-Encoding"] = "identity"
    if client.base_url.startswith("http://"):
        client.mount("http://", HTTPAdapter(pool_maxsize=POOL_SIZE))
    return client


class PemTls(TLSConfig):
    """TLS from PEM texts: the engine must be signed by the given CA and by no other."""

    def __init__(self, material: TlsMaterial) -> None:
        super().__init__(verify=True)
        self._context = tls_context(material)

    def configure_client(self, client: docker.APIClient) -> None:
        client.mount("https://", _ContextAdapter(self._context))


def tls_context(material: TlsMaterial) -> ssl.SSLContext:
    """A client context that trusts ``material``'s CA only and checks the host name.

    Raises:
        ssl.SSLError: a text is not PEM, or key and certificate do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=material.ca_cert)
    except ValueError as error:
        raise ssl.SSLError(f"the CA certificate is empty or not PEM: {error}") from error
    if material.client_cert:
        # ssl reads a key from a file only: it lies there, for this user alone, while it is read.
        with tempfile.TemporaryDirectory(prefix="miabi-tls-") as folder:
            pair = Path(folder, "pair.pem")
            pair.touch(mode=0o600)
            pair.write_text(f"{material.client_key.strip()}\n{material.client_cert.strip()}\n")
            context.load_cert_chain(pair, password=_no_passphrase)
    return context


def _no_passphrase() -> str:
    """Without this, OpenSSL asks for an encrypted key's passphrase on the terminal."""
    raise ssl.SSLError("the client key is encrypted; give it without a passphrase")


class _ContextAdapter(HTTPAdapter):
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(pool_maxsize=POOL_SIZE)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Leave the context as it is: requests would add the public CAs to it."""

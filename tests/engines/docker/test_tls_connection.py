"""TLS from PEM texts."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engines.contract import EngineAddress, EngineUnreachable, TlsMaterial
from engines.docker import DockerEngine
from tests.engines.docker.conftest import Handler, answer


@dataclass
class Authority:
    """A certificate authority of the test's own."""

    name: str

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(self.name, self.key.public_key(), authority=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str, address: str = "127.0.0.1") -> tuple[str, str]:
        """Certificate and key as PEM texts."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), address=address)
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), pem(key)

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        *,
        authority: bool = False,
        address: str | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    encoding, layout = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, layout, encryption).decode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("nodes")


@pytest.fixture
def tls_port(authority: Authority, tmp_path: Path) -> Iterator[int]:
    """An engine that asks for a client certificate of ``authority``."""

    class Requests(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(200, {"ApiVersion": "1.41"})(self)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A refused handshake is what the test is about."""

    certificate, key = authority.issue("engine")
    (tmp_path / "server.pem").write_text(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(cadata=authority.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Requests)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def present(port: int, material: TlsMaterial | None, *, scheme: str = "tcp", host: str = "127.0.0.1") -> bool:
    return DockerEngine(EngineAddress(f"{scheme}://{host}:{port}", tls=material, timeout_s=3)).image_present("app:1")


@pytest.mark.parametrize("scheme", ["tcp", "https"])
def test_an_engine_is_reached_with_certificates_given_as_texts(
    tls_port: int, authority: Authority, scheme: str
) -> None:
    assert present(tls_port, TlsMaterial(authority.pem, *authority.issue("miabi")), scheme=scheme)


def test_an_engine_of_another_authority_is_not_trusted(tls_port: int, authority: Authority) -> None:
    with pytest.raises(EngineUnreachable, match="certificate verify failed"):
        present(tls_port, TlsMaterial(Authority("others").pem, *authority.issue("miabi")))


def test_public_authorities_are_not_trusted_beside_the_given_one(
    tls_port: int, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "public.pem").write_text(authority.pem)
    monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(tmp_path / "public.pem"))

    with pytest.raises(EngineUnreachable, match="certificate verify failed"):
        present(tls_port, TlsMaterial(Authority("others").pem, *authority.issue("miabi")))


def test_an_engine_under_another_name_is_not_trusted(tls_port: int, authority: Authority) -> None:
    with pytest.raises(EngineUnreachable, match="localhost"):
        present(tls_port, TlsMaterial(authority.pem, *authority.issue("miabi")), host="localhost")


def test_without_a_client_certificate_the_engine_refuses(tls_port: int, authority: Authority) -> None:
    with pytest.raises(EngineUnreachable):
        present(tls_port, TlsMaterial(authority.pem))


def test_material_that_is_no_pem_is_told_without_showing_it(authority: Authority) -> None:
    certificate, key = authority.issue("miabi")
    encrypted = pem(ec.generate_private_key(ec.SECP256R1()), b"secret")
    for material in (
        TlsMaterial(""),
        TlsMaterial("no pem"),
        TlsMaterial(authority.pem, certificate, "no key"),
        TlsMaterial(authority.pem, certificate, authority.issue("other")[1]),
        TlsMaterial(authority.pem, certificate, encrypted),
    ):
        with pytest.raises(EngineUnreachable, match="TLS cannot be used") as refused:
            present(1, material)
        assert "PRIVATE" not in str(refused.value)
        assert key not in repr(material)

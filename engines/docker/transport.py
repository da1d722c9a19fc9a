"""Calls to one engine: each bounded in time and size, each failure one of the contract's errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import requests
import urllib3.exceptions
from docker.errors import DockerException

from engines.contract import EngineAddress, EngineError, EngineTimeout, EngineUnreachable
from engines.docker import errors
from engines.docker.client import EngineClient, build_client

_T = TypeVar("_T")

ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
"""No answer of an engine is read beyond this."""

READ_BYTES = 64 * 1024

_CALL_FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError)


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer of the engine."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 400

    def read_as(self, reader: Callable[[Any], _T]) -> _T:
        """The body's JSON, read by ``reader``.

        Raises:
            EngineUnreachable: it is not what an engine says; what it did is not known.
        """
        try:
            return reader(json.loads(self.body))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise EngineUnreachable(f"not an engine's answer: {self.body[:200]!r}") from error

    @property
    def message(self) -> str:
        """The engine's own words about a failure."""
        try:
            return str(json.loads(self.body)["message"])
        except (ValueError, KeyError, TypeError):
            return self.body[: errors.MESSAGE_LIMIT].decode(errors="replace") or f"HTTP status {self.status}"

    @property
    def refuses_version(self) -> bool:
        """Whether the engine finds the negotiated API version too new or too old."""
        return self.status == 400 and b"client version" in self.body

    def raise_for_error(self, phase: str = "call") -> None:
        if not self.ok:
            raise errors.from_answer(self.status, self.message, phase=phase)


class Transport:
    """Calls to the engine at ``address``, from any number of threads.

    The client is built at the first call, and kept: the version is negotiated once and
    connections are reused.
    """

    def __init__(self, address: EngineAddress) -> None:
        self.address = address
        self._client: EngineClient | None = None
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        phase: str = "call",
        renegotiated: bool = False,
    ) -> Answer:
        """Ask once and read the whole answer, whatever its status.

        Args:
            path: below the API version, e.g. ``/containers/json``.
            timeout_s: for all of it, in seconds; the address's own when None.
            phase: what an ``EngineTimeout`` names.
            renegotiated: the version was agreed on anew for this very call.

        Raises:
            EngineTimeout, EngineUnreachable
        """
        timeout_s = self.address.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        response = self._send(method, path, params=params, json=body, stream=True, timeout=timeout_s, phase=phase)
        with response:
            answer = Answer(response.status_code, self.read_all(response, deadline=deadline, phase=phase))
        if answer.refuses_version and not renegotiated:
            # The engine was replaced by one that speaks other versions; it has not acted.
            self.close()
            return self.call(
                method, path, params=params, body=body, timeout_s=timeout_s, phase=phase, renegotiated=True
            )
        return answer

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        phase: str = "call",
    ) -> Iterator[requests.Response]:
        """Ask, and hand out the response with its body unread; it is closed at the end.

        ``timeout_s`` bounds the wait for the head, and then each single read.

        Raises:
            EngineError: also for a status >= 400, as ``errors.from_answer`` sorts it.
        """
        timeout_s = self.address.timeout_s if timeout_s is None else timeout_s
        response = self._send(
            method,
            path,
            params=params,
            json=body,
            headers=headers,
            stream=True,
            timeout=timeout_s,
            phase=phase,
        )
        with response:
            if response.status_code >= 400:
                deadline = time.monotonic() + timeout_s
                answer = Answer(response.status_code, self.read_all(response, deadline=deadline, phase=phase))
                if answer.refuses_version:
                    self.close()
                answer.raise_for_error(phase)
            yield response

    def read(self, response: requests.Response, *, phase: str = "call") -> bytes:
        """What has arrived of the body, at most ``READ_BYTES``; empty at its end."""
        return guarded(lambda: response.raw.read1(READ_BYTES) or b"", phase=phase)

    def read_all(self, response: requests.Response, *, deadline: float, phase: str = "call") -> bytes:
        """The whole body. ``deadline`` is on the monotonic clock."""
        parts: list[bytes] = []
        size = 0
        while part := self.read(response, phase=phase):
            parts.append(part)
            size += len(part)
            if size > ANSWER_LIMIT_BYTES:
                raise EngineError(f"the answer is larger than {ANSWER_LIMIT_BYTES} bytes")
            if time.monotonic() > deadline:
                raise EngineTimeout("the answer did not end in time", phase=phase)
        return b"".join(parts)

    def close(self) -> None:
        """Drop the connections. A later call connects anew."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _send(self, method: str, path: str, *, phase: str, **options: Any) -> requests.Response:
        client = self._connected(phase)
        url = f"{client.base_url}/v{client.api_version}{path}"
        return guarded(lambda: client.request(method, url, **options), phase=phase)

    def _connected(self, phase: str) -> EngineClient:
        client = self._client
        if client is None:
            # Not under the lock: with a hung engine each thread would wait for all before it.
            built = guarded(lambda: build_client(self.address), phase=phase)
            with self._lock:
                client = self._client = self._client or built
            if client is not built:
                built.close()
        return client


def segment(name: str) -> str:
    """``name`` as one segment of a path. Raises ValueError for an empty one."""
    if not name:
        raise ValueError("an empty name would address another resource")
    return quote(name, safe="")


def guarded(ask: Callable[[], _T], *, phase: str = "call") -> _T:
    """Run ``ask``; what the libraries raise becomes one of the contract's errors."""
    try:
        return ask()
    except _CALL_FAILURES as error:
        raise errors.from_exception(error, phase=phase) from error

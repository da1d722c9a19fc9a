"""Container logs: the engine's multiplexed stream, as whole lines.

The stream is a sequence of frames: one byte for the stream (1 output, 2 errors), three
zero bytes, the payload's size as four bytes big-endian, the payload (Engine API v1.41,
ContainerAttach, "Stream format").
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import datetime

import requests

from engines.contract import EngineError
from engines.docker.streams import arrivals
from engines.docker.transport import Transport, segment

STDOUT, STDERR = 1, 2
FOLLOW_HEARTBEAT_S = 5.0
LINE_LIMIT_BYTES = 64 * 1024
"""A line longer than this is handed on in pieces."""

_HEADER = struct.Struct(">BxxxL")


def read_logs(
    transport: Transport,
    container: str,
    *,
    tail: int | None,
    follow: bool,
    since: datetime | None,
    timestamps: bool,
) -> Iterator[bytes]:
    """Chunks of whole lines; when following, ``b""`` after each silence of ``FOLLOW_HEARTBEAT_S``.

    The engine is asked at once, so an error is raised here and not at the first chunk.
    """
    params = {
        "stdout": "1",
        "stderr": "1",
        "follow": "1" if follow else "0",
        "timestamps": "1" if timestamps else "0",
        "tail": "all" if tail is None else str(tail),
        **({"since": f"{since.timestamp():.6f}"} if since is not None else {}),
    }
    opening = transport.stream("GET", f"/containers/{segment(container)}/logs", params=params)
    opened = _opened(opening)
    return _chunks(_following(transport, opened) if follow else _reading(transport, opened))


def _opened(opening: AbstractContextManager[requests.Response]) -> AbstractContextManager[requests.Response]:
    """Enter ``opening`` now; whoever enters the result gets the response and closes it at the end.

    Only the thread that reads may close: a close from another waits for the read to end.
    """
    stack = ExitStack()
    response = stack.enter_context(opening)

    @contextmanager
    def owned() -> Iterator[requests.Response]:
        with stack:
            yield response

    return owned()


def collect(transport: Transport, container: str, *, limit_bytes: int, timeout_s: float) -> tuple[bytes, bytes, bool]:
    """All that an ended container printed: output, errors, and whether ``limit_bytes`` cut them.

    The limit is for both together.
    """
    streams: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
    room = limit_bytes
    frames = Demultiplexer()
    params = {"stdout": "1", "stderr": "1"}
    with transport.stream("GET", f"/containers/{segment(container)}/logs", params=params, timeout_s=timeout_s) as body:
        while part := transport.read(body):
            for stream, payload in frames.feed(part):
                streams[stream].append(payload[:room])
                if len(payload) > room:
                    return b"".join(streams[STDOUT]), b"".join(streams[STDERR]), True
                room -= len(payload)
    return b"".join(streams[STDOUT]), b"".join(streams[STDERR]), False


class Demultiplexer:
    """Takes the bytes of a multiplexed stream in any portions; gives payloads with their stream."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._stream = STDOUT
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Payloads, in order. A frame's payload may come in several pieces.

        Raises:
            EngineError: the bytes are no multiplexed stream.
        """
        self._pending += data
        while self._pending:
            if not self._left:
                if len(self._pending) < _HEADER.size:
                    return
                self._stream, self._left = self._header()
                continue
            payload = bytes(self._pending[: self._left])
            del self._pending[: self._left]
            self._left -= len(payload)
            yield self._stream, payload

    def _header(self) -> tuple[int, int]:
        head = bytes(self._pending[: _HEADER.size])
        del self._pending[: _HEADER.size]
        stream, size = _HEADER.unpack(head)
        if stream > STDERR or any(head[1:4]):
            raise EngineError(f"not a multiplexed stream: {head!r}")
        # 0 is standard input, which some engines use for what belongs to the output.
        return stream or STDOUT, size


class LineAssembler:
    """Joins pieces to whole lines, each stream for itself, so that two never mix in one line."""

    def __init__(self) -> None:
        self._unfinished = {STDOUT: b"", STDERR: b""}

    def add(self, stream: int, payload: bytes) -> bytes:
        """The whole lines that ``payload`` completes; empty when it completes none."""
        text = self._unfinished[stream] + payload
        cut = text.rfind(b"\n") + 1
        if not cut and len(text) > LINE_LIMIT_BYTES:
            cut = len(text)
        self._unfinished[stream] = text[cut:]
        return text[:cut]

    def rest(self) -> bytes:
        """What is left without an end of line."""
        return b"".join(self._unfinished.values())


def _chunks(parts: Generator[bytes]) -> Iterator[bytes]:
    frames = Demultiplexer()
    lines = LineAssembler()
    with closing(parts):
        for part in parts:
            whole = b"".join(lines.add(stream, payload) for stream, payload in frames.feed(part))
            if whole or not part:
                yield whole
        if rest := lines.rest():
            yield rest


def _reading(transport: Transport, opened: AbstractContextManager[requests.Response]) -> Generator[bytes]:
    with opened as response:
        while part := transport.read(response):
            yield part


def _following(transport: Transport, opened: AbstractContextManager[requests.Response]) -> Generator[bytes]:
    return arrivals(transport, _patient(opened), heartbeat_s=FOLLOW_HEARTBEAT_S)


@contextmanager
def _patient(opened: AbstractContextManager[requests.Response]) -> Iterator[requests.Response]:
    """The head came in time; from here on, silence is what a quiet container sounds like."""
    with opened as response:
        connection = response.raw.connection
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(None)
        yield response

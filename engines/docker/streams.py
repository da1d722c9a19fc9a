"""Answers that trickle: read in a thread, so that silence can be noticed and reading given up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, suppress

import requests

from engines.contract import EngineTimeout
from engines.docker.transport import Transport

_INBOX_PARTS = 16
_OFFER_S = 0.5


def arrivals(
    transport: Transport,
    opening: AbstractContextManager[requests.Response],
    *,
    heartbeat_s: float,
    deadline: float | None = None,
    phase: str = "call",
) -> Generator[bytes]:
    """The parts of a body as they arrive, and ``b""`` whenever none came for ``heartbeat_s``.

    ``opening`` is entered in the reading thread, so a slow head is noticed too. When the
    generator is closed, the connection is shut down and the thread ends.

    Args:
        deadline: on the monotonic clock, for the whole body; None waits for ever.

    Raises:
        EngineTimeout: at the deadline, naming ``phase``.
        EngineError: whatever the reading thread met.
    """
    reader = _Reader(transport, opening, phase)
    reader.start()
    try:
        while True:
            patience = heartbeat_s
            if deadline is not None:
                patience = min(patience, deadline - time.monotonic())
                if patience <= 0:
                    raise EngineTimeout("the answer did not end in time", phase=phase)
            try:
                part = reader.inbox.get(timeout=patience)
            except queue.Empty:
                yield b""
                continue
            if isinstance(part, Exception):
                raise part
            if part is None:
                return
            yield part
    finally:
        reader.give_up()


class _Reader(threading.Thread):
    def __init__(self, transport: Transport, opening: AbstractContextManager[requests.Response], phase: str) -> None:
        super().__init__(name="engine-stream", daemon=True)
        self.inbox: queue.Queue[bytes | Exception | None] = queue.Queue(_INBOX_PARTS)
        self._transport = transport
        self._opening = opening
        self._phase = phase
        self._response: requests.Response | None = None
        self._given_up = threading.Event()

    def run(self) -> None:
        try:
            with self._opening as response:
                # Set before the flag is looked at: whoever gives up sees the response, or
                # this thread sees the flag.
                self._response = response
                while not self._given_up.is_set() and (part := self._transport.read(response, phase=self._phase)):
                    self._offer(part)
            self._offer(None)
        except Exception as error:  # noqa: BLE001 - carried over to the caller's thread
            self._offer(error)

    def give_up(self) -> None:
        self._given_up.set()
        response = self._response
        if response is not None:
            # Already at its end, or back in the pool: then there is nothing to wake.
            with suppress(RuntimeError, ValueError, OSError):
                response.raw.shutdown()

    def _offer(self, part: bytes | Exception | None) -> None:
        while not self._given_up.is_set():
            with suppress(queue.Full):
                self.inbox.put(part, timeout=_OFFER_S)
                return

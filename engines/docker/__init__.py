"""The Docker driver: ``connect(address)`` gives the engine, one per address and process."""

from __future__ import annotations

import os
import threading
from functools import lru_cache

from engines.contract import EngineAddress
from engines.docker.device_requests import AttachMode
from engines.docker.engine import DockerEngine

__all__ = ["AttachMode", "DockerEngine", "connect"]

_KEPT = 4096
"""Engines kept per process. One that falls out lives on as long as somebody uses it."""

_lock = threading.Lock()


def connect(address: EngineAddress, *, attach_mode: AttachMode = "device_request") -> DockerEngine:
    """The engine at ``address``, always the same object in one process.

    Nothing is sent yet. Its connections and the negotiated API version are reused by all
    threads, so a call costs no handshake.
    """
    with _lock:
        return _engine(address, attach_mode)


@lru_cache(maxsize=_KEPT)
def _engine(address: EngineAddress, attach_mode: AttachMode) -> DockerEngine:
    return DockerEngine(address, attach_mode=attach_mode)


def _forget_after_fork() -> None:
    # Parent and child would talk through the same sockets.
    _engine.cache_clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_after_fork)

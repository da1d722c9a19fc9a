"""Calls made at the same moment, each with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

A = TypeVar("A")
R = TypeVar("R")


def in_parallel(call: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """``call`` for each argument, all released together; results in the arguments' order."""
    gate = threading.Barrier(len(arguments))

    def one(argument: A) -> R:
        try:
            gate.wait(30)
            return call(argument)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(one, arguments))

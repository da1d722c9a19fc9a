"""Faults that can be switched on, each for one operation and a number of times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

How = Literal["hang", "drop", "act_then_drop", "act_then_hang", "error", "latency", "cut", "dies"]
"""``hang`` never answers and never acts. ``drop`` closes the connection before acting. With
``act_then_drop`` and ``act_then_hang`` the answer is lost, but it was done. ``latency`` comes
before acting, which then happens even when the client has gone. ``cut`` breaks a streamed
answer off. ``dies`` (of ``start``) lets the container end some seconds after its start."""

OPERATIONS = frozenset(
    {"ping", "version", "info", "images", "pull", "create", "start", "inspect", "list", "stop", "kill", "wait"}
    | {"delete", "logs", "exec", "volumes", "rename", "any"}
)


@dataclass(slots=True)
class Fault:
    """``times`` None: until taken away; ``skip`` calls are let through before the first.

    ``seconds`` (plus up to ``jitter``) is the delay of ``latency`` and of ``dies``; ``error``
    answers ``status`` with ``message``, or, of a pull with ``in_stream``, after it has begun.
    """

    how: How
    operation: str = "any"
    times: int | None = None
    seconds: float = 0.0
    status: int = 500
    message: str = "virtual fault"
    jitter: float = 0.0
    skip: int = 0
    in_stream: bool = False
    after_bytes: int = 0
    exit_code: int = 1
    oom: bool = False

    def check(self) -> None:
        """Raises ValueError for a fault that can never happen."""
        if self.how not in get_args(How):
            raise ValueError(f"there is no fault {self.how}; there are {', '.join(get_args(How))}")
        if self.operation not in OPERATIONS:
            raise ValueError(f"there is no operation {self.operation}; there are {', '.join(sorted(OPERATIONS))}")
        if self.how == "dies" and self.operation != "start":
            raise ValueError("only a start can be followed by a death")
        if self.in_stream and self.operation != "pull":
            raise ValueError("only a pull can fail within its stream")
        if self.how == "cut" and self.operation not in ("logs", "pull", "wait", "exec", "any"):
            raise ValueError(f"the answer to {self.operation} is no stream that could be cut")
        if not 400 <= self.status <= 599:
            raise ValueError(f"{self.status} is no error status")


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one call: a delay, and then at most one fault."""

    delay_s: float = 0.0
    fault: Fault | None = None


@dataclass(slots=True)
class Faults:
    """The faults of one node, and lies it tells about its containers."""

    active: list[Fault] = field(default_factory=list)
    inside_shows: list[str] | None = None
    """Device ids every container with nvidia-smi sees instead of its own: an isolation breach."""
    record_shows: list[str] | None = None
    """Device ids the engine's record names instead of those asked for."""
    unkillable: bool = False
    """Containers cannot be stopped or removed, as with a process stuck in the driver."""
    unkillable_after_s: float = 0.0
    """How long the engine tries before it says so; dockerd takes 10 seconds and more."""
    _chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - the same delays each time

    def add(self, fault: Fault) -> None:
        """Raises ValueError for a fault that can never happen."""
        fault.check()
        self.active.append(fault)

    def clear(self) -> None:
        self.active.clear()
        self.inside_shows = self.record_shows = None
        self.unkillable = False
        self.unkillable_after_s = 0.0

    def fate_of(self, operation: str) -> Fate:
        """All delays for one call of ``operation`` and the first other fault; their times are used up."""
        delay_s, chosen = 0.0, None
        for fault in list(self.active):
            if fault.how == "dies" or fault.operation not in (operation, "any"):
                continue
            if (fault.how != "latency" and chosen is not None) or not self._take(fault):
                continue
            if fault.how == "latency":
                delay_s += self.delay_of(fault)
            else:
                chosen = fault
        return Fate(delay_s, chosen)

    def next_death(self) -> Fault | None:
        """The ``dies`` that a container which starts now falls under."""
        return next((fault for fault in list(self.active) if fault.how == "dies" and self._take(fault)), None)

    def delay_of(self, fault: Fault) -> float:
        return fault.seconds + fault.jitter * self._chance.random()

    def _take(self, fault: Fault) -> bool:
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if fault.times is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.active.remove(fault)
        return True

    @contextmanager
    def during(self, fault: Fault) -> Iterator[None]:
        """``fault`` for as long as the block runs."""
        self.add(fault)
        try:
            yield
        finally:
            self.active = [each for each in self.active if each is not fault]

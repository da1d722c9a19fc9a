"""Faults that can be switched on, each for one operation and a number of times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

How = Literal["hang", "drop", "act_then_drop", "error", "latency"]

OPERATIONS = frozenset(
    {"ping", "version", "info", "images", "pull", "create", "start", "inspect", "list", "stop", "kill", "wait"}
    | {"delete", "logs", "exec", "volumes", "any"}
)


@dataclass(slots=True)
class Fault:
    """``times`` None: until taken away. ``error`` answers ``status`` with ``message``."""

    how: How
    operation: str = "any"
    times: int | None = None
    seconds: float = 0.0
    status: int = 500
    message: str = "virtual fault"


@dataclass(slots=True)
class Faults:
    """The faults of one node, and lies it tells about its containers."""

    active: list[Fault] = field(default_factory=list)
    inside_shows: list[str] | None = None
    """Device ids every container sees instead of those attached: an isolation breach."""
    record_shows: list[str] | None = None
    """Device ids the engine's record names instead of those asked for."""
    unkillable: bool = False
    """Containers cannot be stopped or removed, as with a process stuck in the driver."""

    def add(self, fault: Fault) -> None:
        if fault.operation not in OPERATIONS:
            raise ValueError(f"there is no operation {fault.operation}")
        self.active.append(fault)

    def clear(self) -> None:
        self.active.clear()
        self.inside_shows = self.record_shows = None
        self.unkillable = False

    def next_for(self, operation: str) -> Fault | None:
        """The first fault for ``operation``; one of its times is used up."""
        for fault in self.active:
            if fault.operation in (operation, "any"):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.active.remove(fault)
                return fault
        return None

    @contextmanager
    def during(self, fault: Fault) -> Iterator[None]:
        """``fault`` for as long as the block runs."""
        self.add(fault)
        try:
            yield
        finally:
            if fault in self.active:
                self.active.remove(fault)

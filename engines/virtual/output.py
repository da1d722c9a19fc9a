"""What a container printed, as the engine keeps it: whole lines, the oldest dropped when it is much."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

KEPT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """A line (or the rest of one without its end). ``at`` is in seconds since the epoch."""

    at: float
    stream: int
    text: bytes


@dataclass(slots=True)
class Output:
    """``first`` is the number of the oldest line kept; lines are numbered from 0."""

    lines: deque[Line] = field(default_factory=deque)
    first: int = 0
    size: int = 0

    def add(self, at: float, stream: int, data: bytes) -> None:
        for text in data.splitlines(keepends=True):
            self.lines.append(Line(at, stream, text))
            self.size += len(text)
        while self.size > KEPT_BYTES:
            self.size -= len(self.lines.popleft().text)
            self.first += 1

    @property
    def end(self) -> int:
        """The number that the next line will have."""
        return self.first + len(self.lines)

    def after(self, number: int) -> list[Line]:
        """The lines from ``number`` on."""
        return [self.lines[at] for at in range(max(0, number - self.first), len(self.lines))]


def frame(stream: int, payload: bytes) -> bytes:
    """A chunk of output in the multiplexed format (Engine API, ContainerAttach, "Stream format")."""
    return struct.pack(">BxxxL", stream, len(payload)) + payload

"""The engine's multiplexed log stream."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import EngineError
from engines.docker.logs import LINE_LIMIT_BYTES, STDERR, STDOUT, Demultiplexer, LineAssembler


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(payload)) + payload


@given(
    frames=st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=8),
    cuts=st.lists(st.integers(1, 13), min_size=1),
)
def test_any_portioning_of_the_bytes_gives_the_same_streams(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(stream, payload) for stream, payload in frames)
    demultiplexer = Demultiplexer()
    seen = {STDOUT: b"", STDERR: b""}
    position = turn = 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        for stream, payload in demultiplexer.feed(data[position : position + size]):
            seen[stream] += payload
        position, turn = position + size, turn + 1

    for wanted in (STDOUT, STDERR):
        assert seen[wanted] == b"".join(payload for stream, payload in frames if stream == wanted)


def test_bytes_without_frames_are_an_error_and_not_a_huge_wait() -> None:
    with pytest.raises(EngineError, match="not a multiplexed stream"):
        list(Demultiplexer().feed(b"plain text of a terminal\n"))


def test_lines_of_two_streams_never_mix() -> None:
    lines = LineAssembler()

    assert lines.add(STDOUT, b"out ") == b""
    assert lines.add(STDERR, b"err\n") == b"err\n"
    assert lines.add(STDOUT, b"put\nre") == b"out put\n"
    assert lines.rest() == b"re"


def test_a_line_without_end_does_not_grow_for_ever() -> None:
    lines = LineAssembler()

    assert lines.add(STDOUT, b"x" * (LINE_LIMIT_BYTES + 1)) == b"x" * (LINE_LIMIT_BYTES + 1)
    assert lines.rest() == b""

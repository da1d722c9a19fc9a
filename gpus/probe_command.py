"""The command a probe runs in its container, and its output taken apart again. Pure."""

from __future__ import annotations

import re

# Between marks of our own, so that an image's banner is never taken for an answer. `-x` is
# the machine format; `-L` is asked too because older XML has no UUIDs of MIG instances.
PROBE_COMMAND: tuple[str, ...] = (
    "sh",
    "-c",
    "echo '--miabi xml--'; nvidia-smi -q -x; status=$?; echo; echo '--miabi list--'; nvidia-smi -L; echo; "
    "echo '--miabi end--'; exit $status",
)

_PARTS = re.compile(
    rb"--miabi xml--\r?\n(?P<xml>.*?)(?:--miabi list--\r?\n(?P<list>.*?)(?:--miabi end--|\Z)|\Z)", re.DOTALL
)


def split_probe_output(stdout: bytes) -> tuple[bytes, bytes]:
    """The XML part and the list part; all of it is the XML part when there are no marks."""
    match = _PARTS.search(stdout)
    if match is None:
        return stdout, b""
    return match["xml"], match["list"] or b""

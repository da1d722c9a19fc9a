"""Does a device's model serve a request for a kind? Pure."""

from __future__ import annotations

import re

VENDORS = frozenset({"nvidia", "amd", "intel"})
_TOKEN = re.compile(r"[a-z0-9.]+")


def tokens(text: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(text.lower()))


def matches_kind(model: str, vendor: str, kind: str) -> bool:
    """Whether a device of ``model`` may serve a request for ``kind``.

    Kinds are compared by whole tokens of the normalised name, so that ``A10`` is not
    served by an ``A100`` and ``nvidia t4`` finds a ``Tesla T4``. An empty kind matches
    every device.
    """
    return tokens(kind) <= tokens(model) | {vendor.lower()}

"""One cell of ``nvidia-smi``'s XML to a value; every spelling of "unknown" is unknown. Pure."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

_AMOUNT = re.compile(r"(?P<number>\d{1,15})(?:\.\d+)?\s*(?P<unit>[KMGT]i?B|bytes|B)?\Z", re.IGNORECASE | re.ASCII)
# What the column holds; two pebibytes.
_MOST_MIB = 2**31 - 1
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}
_UNKNOWN = frozenset(
    {
        "",
        "n/a",
        "none",
        "unknown",
        "unknown error",
        "not supported",
        "no data",
        "err!",
        "insufficient permissions",
        "gpu is lost",
        "gpu requires reset",
    }
)


def mib(text: str) -> int | None:
    """An amount of memory in MiB; one without a unit is MiB already. None where it is none, or too large to be true."""
    match = _AMOUNT.match(text.strip())
    if match is None:
        return None
    unit = (match["unit"] or "MiB")[0].lower()
    amount = int(int(match["number"]) * _MIB[unit])
    return amount if amount <= _MOST_MIB else None


def percent(text: str) -> int | None:
    """0 to 100; anything else is unknown."""
    share = number(text.rstrip(" %"))
    return share if share is not None and share <= 100 else None


def number(text: str) -> int | None:
    """A count of at most nine digits; anything else is unknown."""
    return int(text) if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) else None


def _is_marker(text: str) -> bool:
    """Whether the cell is one of the many spellings of "unknown": any bracketed one is."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return True
    return text.lower() in _UNKNOWN or "deprecated" in text.lower()


def known(text: str) -> str:
    """The cell's text, "" where it is a marker."""
    return "" if _is_marker(text) else text.strip()


def find_text(element: Element | None, path: str) -> str:
    """The text at ``path`` without the blanks around it, "" where there is none."""
    return (element.findtext(path) or "").strip() if element is not None else ""

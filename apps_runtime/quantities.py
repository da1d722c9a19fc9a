"""CPU and memory as people write them (Kubernetes quantities), and back. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = r"(?P<number>\d{1,15}(?:\.\d{1,3})?)"
_CPU = re.compile(rf"{_NUMBER}(?P<milli>m)?\Z", re.ASCII)
_MEMORY = re.compile(rf"{_NUMBER}(?P<unit>k|[KMGT]i?)?\Z", re.ASCII)
_BYTES = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_MIB = 2**20
MIN_MEMORY_MIB = 6
"""The engine's own floor."""
MAX_MILLIS = 1_000_000
MAX_MIB = 64 * 1024 * 1024


def parse_cpu(text: str | int | float) -> int:
    """Millicores: ``"500m"`` is 500, ``"1.5"`` and ``1.5`` are 1500.

    Raises:
        ValueError: with a sentence.
    """
    match = _CPU.match(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is no amount of CPU. Write cores (2, 0.5) or millicores (500m).")
    millis = Decimal(match["number"]) * (1 if match["milli"] else 1000)
    if millis != int(millis) or not 1 <= millis <= MAX_MILLIS:
        raise ValueError(f"{text!r} is out of range: CPU is 1m to {MAX_MILLIS // 1000} cores, in whole millicores.")
    return int(millis)


def parse_memory(text: str | int) -> int:
    """MiB, rounded up: ``"16Gi"`` is 16384; a bare number is bytes, as in Kubernetes.

    Raises:
        ValueError: with a sentence.
    """
    match = _MEMORY.match(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is no amount of memory. Write for example 512Mi or 16Gi.")
    thousandths = int(Decimal(match["number"]) * 1000) * _BYTES[match["unit"] or ""]
    mib = -(-thousandths // (_MIB * 1000))
    if not MIN_MEMORY_MIB <= mib <= MAX_MIB:
        raise ValueError(f"{text!r} is out of range: memory is {MIN_MEMORY_MIB}Mi to {MAX_MIB // 1024 // 1024}Ti.")
    return mib


def format_cpu(millis: int) -> str:
    """The shortest spelling: whole cores without the ``m``."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def format_memory(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"

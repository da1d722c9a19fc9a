"""Does a device's model serve a request for a kind? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

VENDORS = frozenset({"nvidia", "amd", "intel"})
_TOKEN = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)*", re.ASCII)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}\Z", re.ASCII)
# Words of a model's name that say nothing about which card it is.
_FILLER = frozenset({"geforce", "tesla", "quadro", "graphics", "generation", "corporation"}) | VENDORS


def tokens(text: str) -> frozenset[str]:
    """The words and numbers of a name, in lower case: ``A100-SXM4-80GB`` has three."""
    return frozenset(_TOKEN.findall(text.lower()))


def check_kind(kind: str) -> str:
    """A kind as it may be asked for, blanks around it dropped.

    Raises:
        ValueError: with a sentence.
    """
    kind = " ".join(kind.split())
    if kind and not _KIND.match(kind):
        raise ValueError(
            f"{kind[:64]!r} is no GPU kind: a vendor (nvidia) or a model (l4, a100), at most 64 characters."
        )
    return kind


def matches_kind(model: str, vendor: str, kind: str) -> bool:
    """Whether a device of ``model`` may serve a request for ``kind``.

    Kinds are compared by whole tokens of the normalised name, so that ``A10`` is not
    served by an ``A100`` and ``nvidia t4`` finds a ``Tesla T4``. An empty kind matches
    every device; one without a word or number in it matches none.
    """
    wanted = tokens(kind)
    if not wanted:
        return not kind.strip()
    return wanted <= tokens(model) | {vendor.lower()}


def known_kinds(devices: Iterable[tuple[str, str]]) -> list[str]:
    """Kinds that match some of ``devices`` (vendor, model), to tell people: vendors first,
    then models without the words that say nothing."""
    vendors, models = set(), set()
    for vendor, model in devices:
        vendors.add(vendor.lower())
        models.add(" ".join(word for word in _TOKEN.findall(model.lower()) if word not in _FILLER))
    return sorted(vendors) + sorted(models - {""})


def models_of(kind: str, devices: Iterable[tuple[str, str]]) -> list[str]:
    """The different models that ``kind`` may be served by; more than one: it is ambiguous."""
    return sorted({model for vendor, model in devices if matches_kind(model, vendor, kind)})

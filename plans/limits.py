"""Effective limits: a plan's limits with a workspace's overrides on top. Pure.

One place computes them; admission, the API and the console all read the result.
Units: ``gpu_limit`` and ``app_limit`` are counts, ``cpu_limit`` is millicores,
``memory_limit`` is MiB. For each, 0 means none and -1 means unlimited.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

UNLIMITED = -1


class SecurityProfile(StrEnum):
    DEFAULT = "default"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a workspace may hold at once."""

    gpu_allowed: bool
    gpu_limit: int
    cpu_limit: int
    memory_limit: int
    app_limit: int
    security_profile: SecurityProfile
    max_lease_hours: int

    @property
    def gpu_units(self) -> int:
        """The GPU limit with the capability counted in: 0 when GPUs are not allowed."""
        return self.gpu_limit if self.gpu_allowed else 0


@dataclass(frozen=True, slots=True)
class Overrides:
    """A workspace's own values; ``None`` inherits the plan's."""

    gpu_allowed: bool | None = None
    gpu_limit: int | None = None
    cpu_limit: int | None = None
    memory_limit: int | None = None
    app_limit: int | None = None
    security_profile: SecurityProfile | None = None
    max_lease_hours: int | None = None


def effective(plan: Limits, override: Overrides, *, force_restricted: bool = False) -> Limits:
    """``plan`` with every value of ``override`` that is not ``None`` in its place.

    ``force_restricted`` is the platform-wide switch: it wins over both.
    """
    merged = {}
    for field in fields(Limits):
        own = getattr(override, field.name)
        merged[field.name] = getattr(plan, field.name) if own is None else own
    if force_restricted:
        merged["security_profile"] = SecurityProfile.RESTRICTED
    return Limits(**merged)


def exceeds(limit: int, used: int, requested: int) -> bool:
    """Whether ``requested`` more on top of ``used`` would pass ``limit`` (-1: never)."""
    return limit != UNLIMITED and requested > 0 and used + requested > limit

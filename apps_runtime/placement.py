"""Which devices of one node serve a demand, or why they do not. Pure.

All or nothing: a :class:`Choice` holds as many different devices as were asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpus.kinds import matches_kind


@dataclass(frozen=True, slots=True)
class Demand:
    """``count`` whole devices, narrowed by ``kind`` (vendor or model; empty: any)."""

    count: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as placement sees it.

    ``taken`` are the slots leased now; ``own`` those of them that the same app's earlier
    deployment holds and may hand over.
    """

    id: int
    uuid: str
    vendor: str
    model: str
    index: int | None
    enabled: bool
    present: bool
    healthy: bool
    mig_enabled: bool
    shared: bool
    slots: int
    taken: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()
    overlapped: bool = False
    """A container holds the card this is a MIG instance of, or an instance of this card: the
    same silicon, held from before MIG was switched."""

    @property
    def foreign_held(self) -> int:
        return len(self.taken - self.own)


class PassedOver(StrEnum):
    """Why a device does not serve a demand, first reason that applies."""

    OTHER_KIND = "of another kind"
    MIG_PARENT = "split into MIG instances"
    MISSING = "missing since the last inventory"
    UNHEALTHY = "unhealthy"
    NOT_ENABLED = "not enabled"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Grant:
    device_id: int
    slot: int
    inherited: bool
    """The slot is held by the app's own earlier deployment and is to be handed over."""


@dataclass(frozen=True, slots=True)
class Choice:
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Fewer devices than asked for. Counts are of devices on the node."""

    demand: Demand
    exist: int
    matching: int
    enabled: int
    free: int
    passed_over: tuple[tuple[PassedOver, int], ...]


def choose(devices: Sequence[Device], demand: Demand) -> Choice | Shortfall:
    """Pick ``demand.count`` devices: own ones first, then dedicated, then the least loaded.

    Keeping the devices an app already has makes a redeploy land where its caches are and
    moves nobody. Among shared devices the one with the fewest holders comes first.
    """
    usable: list[Device] = []
    passed: Counter[PassedOver] = Counter()
    for device in devices:
        reason = _pass_over(device, demand.kind)
        if reason is None:
            usable.append(device)
        else:
            passed[reason] += 1
    if len(usable) < demand.count:
        matching = [d for d in devices if matches_kind(d.model, d.vendor, demand.kind)]
        return Shortfall(
            demand=demand,
            exist=len(devices),
            matching=len(matching),
            enabled=sum(d.enabled for d in matching),
            free=len(usable),
            passed_over=tuple(sorted(passed.items(), key=lambda item: -item[1])),
        )
    usable.sort(key=lambda d: (not d.own, d.shared, d.foreign_held, d.index is None, d.index or 0, d.id))
    return Choice(tuple(_grant(device) for device in usable[: demand.count]))


def explain(node_name: str, shortfall: Shortfall) -> str:
    """A sentence for people: counts only, never whose containers hold what."""
    demand = shortfall.demand
    kind = f" of kind {demand.kind}" if demand.kind else ""
    sentence = (
        f"Node {node_name} cannot give {_devices(demand.count)}{kind} now: "
        f"{shortfall.exist} exist, {shortfall.enabled} enabled{' and matching' if kind else ''}, {shortfall.free} free"
    )
    if shortfall.passed_over:
        sentence += " (" + ", ".join(f"{count} {reason.value}" for reason, count in shortfall.passed_over) + ")"
    return sentence + "."


def _pass_over(device: Device, kind: str) -> PassedOver | None:
    if not matches_kind(device.model, device.vendor, kind):
        return PassedOver.OTHER_KIND
    if device.mig_enabled:
        return PassedOver.MIG_PARENT
    if not device.present:
        return PassedOver.MISSING
    if not device.healthy:
        return PassedOver.UNHEALTHY
    if not device.enabled:
        return PassedOver.NOT_ENABLED
    if not device.own and (device.overlapped or device.foreign_held >= device.slots):
        return PassedOver.HELD
    return None


def _grant(device: Device) -> Grant:
    if device.own:
        return Grant(device.id, min(device.own), inherited=True)
    return Grant(device.id, min(_slots(device) - device.taken), inherited=False)


def _slots(device: Device) -> frozenset[int]:
    """Slot 0 of a dedicated device; 1..max_shares of a shared one."""
    return frozenset(range(1, device.slots + 1)) if device.shared else frozenset({0})


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def total(shortfalls: Iterable[Shortfall], demand: Demand) -> Shortfall:
    """Several nodes' shortfalls as one, for a demand that no node of the fleet can serve."""
    passed: Counter[PassedOver] = Counter()
    exist = matching = enabled = free = 0
    for each in shortfalls:
        exist, matching = exist + each.exist, matching + each.matching
        enabled, free = enabled + each.enabled, free + each.free
        passed.update(dict(each.passed_over))
    return Shortfall(demand, exist, matching, enabled, free, tuple(passed.most_common()))

"""A probe's readings into the node's devices, by UUID.

New devices arrive disabled. What the operator decided (enabled, mode, shares) is never
touched. What is not read any more becomes missing, or unreadable when the driver counts
more cards than it shows; no row is ever deleted, and no lease ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from gpus.models import GpuDevice
from gpus.readings import DeviceReading, ProbeReport

# What tells whether a device is as it was; they are written only where one has changed.
_FACTS = (
    "vendor",
    "model",
    "memory_mib",
    "memory_note",
    "index",
    "minor_number",
    "pci_bus_id",
    "mig_enabled",
    "mig_profile",
    "health",
    "health_reason",
    "presence",
    "parent_id",
)
# What moves at each probe.
_GAUGES = ("utilization_percent", "memory_used_mib", "last_seen_at")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """How many rows were made, changed and went missing; duplicates in words."""

    added: int = 0
    changed: int = 0
    vanished: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Rows:
    """The node's rows by UUID, and what has become of them so far."""

    node_id: int
    now: datetime
    known: dict[str, GpuDevice]
    added: int = 0
    changed: list[GpuDevice] = field(default_factory=list)
    seen: list[GpuDevice] = field(default_factory=list)
    """Unchanged but for their gauges."""


def merge(node_id: int, report: ProbeReport) -> MergeResult:
    """Write a good report's devices; the caller holds the node's lock in a transaction.

    At most six queries whatever the number of cards, but for SQLite's limit of variables.
    """
    devices = GpuDevice.objects.filter(node_id=node_id).order_by("pk").select_for_update(no_key=True)
    rows = _Rows(node_id, timezone.now(), {device.uuid: device for device in devices})
    cards = [reading for reading in report.devices if not reading.is_mig_instance]
    instances = [reading for reading in report.devices if reading.is_mig_instance]
    _take_in(rows, cards, {})
    _take_in(rows, instances, {uuid: device.pk for uuid, device in rows.known.items()})
    read = {reading.uuid for reading in report.devices}
    vanished = _vanish(rows, read, report.complete)
    GpuDevice.objects.bulk_update(rows.changed + vanished, [*_FACTS, *_GAUGES, "updated_at"])
    GpuDevice.objects.bulk_update(rows.seen, _GAUGES)
    return MergeResult(rows.added, len(rows.changed), len(vanished), _duplicates(node_id, read))


def mark_all_missing(node_id: int) -> int:
    """The driver reports no card at all: every known row is missing, and kept. The caller holds the node's lock."""
    devices = GpuDevice.objects.filter(node_id=node_id).exclude(presence=GpuDevice.Presence.MISSING)
    return devices.update(
        presence=GpuDevice.Presence.MISSING,
        utilization_percent=None,
        memory_used_mib=None,
        updated_at=timezone.now(),
    )


def _take_in(rows: _Rows, readings: list[DeviceReading], parents: Mapping[str, int]) -> None:
    fresh: list[GpuDevice] = []
    for reading in readings:
        facts = _facts(reading, parents)
        device = rows.known.get(reading.uuid)
        if device is None:
            device = GpuDevice(node_id=rows.node_id, uuid=reading.uuid)
            fresh.append(device)
        elif _differs(device, facts):
            rows.changed.append(device)
        else:
            rows.seen.append(device)
        _set(device, facts, rows.now)
        device.utilization_percent = reading.utilization_percent
        device.memory_used_mib = reading.memory_used_mib
        device.last_seen_at = rows.now
    for device in GpuDevice.objects.bulk_create(fresh):
        rows.known[device.uuid] = device
    rows.added += len(fresh)


def _facts(reading: DeviceReading, parents: Mapping[str, int]) -> dict[str, Any]:
    return {
        "vendor": reading.vendor,
        "model": reading.model,
        "memory_mib": reading.memory_mib,
        "memory_note": reading.memory_note,
        "index": reading.index,
        "minor_number": reading.minor_number,
        "pci_bus_id": reading.pci_bus_id,
        "mig_enabled": reading.mig_enabled,
        "mig_profile": reading.mig_profile,
        "health": GpuDevice.Health.UNHEALTHY if reading.health_reason else GpuDevice.Health.OK,
        "health_reason": reading.health_reason,
        "presence": GpuDevice.Presence.PRESENT,
        "parent_id": parents.get(reading.parent_uuid),
    }


def _differs(device: GpuDevice, facts: Mapping[str, Any]) -> bool:
    return any(getattr(device, name) != value for name, value in facts.items())


def _set(device: GpuDevice, facts: Mapping[str, Any], now: datetime) -> None:
    for name, value in facts.items():
        setattr(device, name, value)
    # bulk_update leaves auto_now out.
    device.updated_at = now


def _vanish(rows: _Rows, read: set[str], complete: bool) -> list[GpuDevice]:
    """What was not read. When the driver counts more cards than it shows, one that was there is
    one of those; one that was away already stays away.
    """
    presence = GpuDevice.Presence
    absence = presence.MISSING if complete else presence.UNREADABLE
    was = {presence.PRESENT, presence.UNREADABLE} if complete else {presence.PRESENT}
    vanished = [device for uuid, device in rows.known.items() if uuid not in read and device.presence in was]
    for device in vanished:
        device.presence = absence
        device.utilization_percent = device.memory_used_mib = None
        device.updated_at = rows.now
    return vanished


def _duplicates(node_id: int, uuids: set[str]) -> tuple[str, ...]:
    """The same UUID on another node: a cloned machine, or one host registered twice."""
    elsewhere = (
        GpuDevice.objects.filter(uuid__in=uuids)
        .exclude(node_id=node_id)
        .order_by("uuid")
        .values_list("uuid", "node__name")
    )
    return tuple(f"{uuid} is also on node {name}: is it the same host twice?" for uuid, name in elsewhere)

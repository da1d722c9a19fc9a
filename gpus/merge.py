"""A probe's readings into the node's devices, by UUID.

New devices arrive disabled. What the operator decided (enabled, mode, shares) is never
touched. What is not read any more becomes missing, or unreadable when the driver counts
more cards than it shows; no row is ever deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from gpus.models import GpuDevice
from gpus.readings import DeviceReading, ProbeReport

_READ_FIELDS = (
    "vendor",
    "model",
    "memory_mib",
    "memory_note",
    "index",
    "minor_number",
    "pci_bus_id",
    "mig_enabled",
    "mig_profile",
    "utilization_percent",
    "memory_used_mib",
    "health",
    "health_reason",
    "presence",
    "parent_id",
    "last_seen_at",
)


@dataclass(frozen=True, slots=True)
class MergeResult:
    added: int
    updated: int
    vanished: int
    warnings: tuple[str, ...]


def merge(node_id: int, report: ProbeReport) -> MergeResult:
    """Write a good report's devices; the caller holds the node's lock in a transaction.

    Five queries, whatever the number of cards.
    """
    now = timezone.now()
    known = {
        device.uuid: device
        for device in GpuDevice.objects.filter(node_id=node_id).order_by("pk").select_for_update(no_key=True)
    }
    cards = [reading for reading in report.devices if not reading.is_mig_instance]
    added, changed = _apply(node_id, cards, known, {}, now)
    parents = {device.uuid: device.pk for device in known.values()}
    instances = [reading for reading in report.devices if reading.is_mig_instance]
    more_added, more_changed = _apply(node_id, instances, known, parents, now)
    read = {reading.uuid for reading in report.devices}
    gone = [device for uuid, device in known.items() if uuid not in read]
    absence = GpuDevice.Presence.MISSING if report.complete else GpuDevice.Presence.UNREADABLE
    vanished = [device for device in gone if device.presence != absence]
    for device in vanished:
        device.presence = absence
    GpuDevice.objects.bulk_update([*changed, *more_changed, *vanished], _READ_FIELDS)
    return MergeResult(added + more_added, len(changed) + len(more_changed), len(vanished), _duplicates(node_id, read))


def mark_all_missing(node_id: int) -> int:
    """The driver reports no card at all: every known row is missing, and kept."""
    devices = GpuDevice.objects.filter(node_id=node_id).exclude(presence=GpuDevice.Presence.MISSING)
    return devices.update(presence=GpuDevice.Presence.MISSING)


def _apply(
    node_id: int,
    readings: list[DeviceReading],
    known: dict[str, GpuDevice],
    parents: dict[str, int],
    now: datetime,
) -> tuple[int, list[GpuDevice]]:
    """New rows are inserted and put into ``known``; returns their number and the rows to update."""
    fresh: list[GpuDevice] = []
    changed: list[GpuDevice] = []
    for reading in readings:
        device = known.get(reading.uuid)
        (changed if device else fresh).append(
            _fill(device or GpuDevice(node_id=node_id, uuid=reading.uuid), reading, parents, now)
        )
    for device in GpuDevice.objects.bulk_create(fresh):
        known[device.uuid] = device
    return len(fresh), changed


def _fill(device: GpuDevice, reading: DeviceReading, parents: dict[str, int], now: datetime) -> GpuDevice:
    device.vendor = reading.vendor
    device.model = reading.model
    device.memory_mib = reading.memory_mib
    device.memory_note = reading.memory_note
    device.index = reading.index
    device.minor_number = reading.minor_number
    device.pci_bus_id = reading.pci_bus_id
    device.mig_enabled = reading.mig_enabled
    device.mig_profile = reading.mig_profile
    device.utilization_percent = reading.utilization_percent
    device.memory_used_mib = reading.memory_used_mib
    device.health = GpuDevice.Health.UNHEALTHY if reading.health_reason else GpuDevice.Health.OK
    device.health_reason = reading.health_reason
    device.presence = GpuDevice.Presence.PRESENT
    device.parent_id = parents.get(reading.parent_uuid)
    device.last_seen_at = now
    return device


def _duplicates(node_id: int, uuids: set[str]) -> tuple[str, ...]:
    """The same UUID on another node: a cloned machine, or one host registered twice."""
    elsewhere = (
        GpuDevice.objects.filter(uuid__in=uuids)
        .exclude(node_id=node_id)
        .order_by("uuid")
        .values_list("uuid", "node__name")
    )
    return tuple(f"{uuid} is also on node {name}: is it the same host twice?" for uuid, name in elsewhere)

"""What operators may decide about a device: enabled, mode, shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import transaction

from gpus.models import MAX_SHARES, GpuDevice, Node
from refusals import Conflict, Malformed, Refusal
from workspaces.audit import Actor, record


class DeviceHeld(Conflict):
    code = "device_held"


class DeviceDuplicate(Conflict):
    code = "device_duplicate"


class DeviceIsMigParent(Conflict):
    code = "device_mig_parent"


def set_device(
    device: GpuDevice,
    *,
    actor: Actor,
    enabled: bool | None = None,
    mode: str | None = None,
    max_shares: int | None = None,
) -> GpuDevice:
    """Change what is given; ``None`` leaves it. Disabling takes nothing from who holds it now.

    A missing or unhealthy device may be enabled: it is offered once it is well again.

    Raises:
        DeviceHeld: mode or shares while containers hold it.
        DeviceDuplicate: enabling a UUID that is enabled on another node.
        DeviceIsMigParent: enabling a card whose MIG instances are offered instead.
        Malformed: shares out of range, or an unknown mode.
    """
    if max_shares is not None and not 1 <= max_shares <= MAX_SHARES:
        raise Malformed(f"max_shares is 1 to {MAX_SHARES}, not {max_shares}.", attr="max_shares")
    if mode is not None and mode not in GpuDevice.Mode.values:
        raise Malformed(f"mode is dedicated or shared, not {mode}.", attr="mode")
    with transaction.atomic():
        Node.objects.select_for_update(no_key=True).get(pk=device.node_id)
        if enabled:
            # Two nodes may be enabling the same UUID: the rows of both are locked, by id.
            same = GpuDevice.objects.filter(uuid=device.uuid).order_by("pk").select_for_update(no_key=True)
            twins = [twin.pk for twin in same if twin.pk != device.pk and twin.enabled]
        locked = GpuDevice.objects.select_for_update(no_key=True, of=("self",)).select_related("node").get(pk=device.pk)
        wanted = {"enabled": enabled, "mode": mode, "max_shares": max_shares}
        changes = {
            name: value for name, value in wanted.items() if value is not None and value != getattr(locked, name)
        }
        if changes.keys() & {"mode", "max_shares"} and locked.held:
            raise DeviceHeld(
                f"{locked.model} on node {locked.node.name} is held by {locked.held} container(s). Stop them, or "
                "disable it and wait, before its mode or shares change.",
                attr=sorted(changes.keys() & {"mode", "max_shares"})[0],
                facts={"held": locked.held},
            )
        if changes.get("enabled"):
            if locked.mig_enabled:
                raise DeviceIsMigParent(
                    f"{locked.model} on node {locked.node.name} is split into MIG instances. Enable those instead.",
                    attr="enabled",
                )
            if twins:
                raise DeviceDuplicate(
                    f"{locked.uuid} is enabled on another node already: the same host may be registered twice. Disable "
                    "it there or remove that node first.",
                    attr="enabled",
                )
        if changes:
            before = {name: getattr(locked, name) for name in changes}
            for name, value in changes.items():
                setattr(locked, name, value)
            locked.save(update_fields=[*changes, "updated_at"])
            record(actor, "device.set", locked, before=before, after=changes)
    locked.refresh_from_db()
    return locked


@dataclass(slots=True)
class BulkOutcome:
    """What came of the same change to many devices."""

    set: list[GpuDevice] = field(default_factory=list)
    refused: list[tuple[GpuDevice, Refusal]] = field(default_factory=list)


def set_devices(
    devices: Iterable[GpuDevice],
    *,
    actor: Actor,
    enabled: bool | None = None,
    mode: str | None = None,
    max_shares: int | None = None,
) -> BulkOutcome:
    """``set_device`` for each, on its own: one that is refused costs the others nothing."""
    outcome = BulkOutcome()
    for device in devices:
        try:
            outcome.set.append(set_device(device, actor=actor, enabled=enabled, mode=mode, max_shares=max_shares))
        except Refusal as refusal:
            outcome.refused.append((device, refusal))
    return outcome

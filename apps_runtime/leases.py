"""Taking, handing over and ending leases. Every caller holds the node's lock.

``GpuDevice.held`` moves in the same transaction as the rows it counts; the unique
(device, slot) pair and the check on ``held`` make the database refuse a double hold even
if a caller were wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.db.models import F

from apps_runtime.models import Deployment, DeviceLease
from apps_runtime.placement import Grant
from apps_runtime.states import LIVE
from gpus.models import GpuDevice, Node


def lock_devices(node_id: int) -> list[GpuDevice]:
    """Lock the node's row, then its devices by id, and return the devices."""
    Node.objects.select_for_update(no_key=True).only("pk").get(pk=node_id)
    return list(GpuDevice.objects.filter(node_id=node_id).order_by("pk").select_for_update(no_key=True, of=("self",)))


def take(deployment: Deployment, grants: Iterable[Grant]) -> None:
    """Hold what was chosen: new slots at once, inherited ones as their successor.

    The devices are locked and ``grants`` were chosen under that lock.
    """
    fresh: list[Grant] = []
    inherited: list[Grant] = []
    for grant in grants:
        (inherited if grant.inherited else fresh).append(grant)
    if fresh:
        DeviceLease.objects.bulk_create(
            DeviceLease(deployment=deployment, device_id=grant.device_id, slot=grant.slot) for grant in fresh
        )
        GpuDevice.objects.filter(pk__in=[grant.device_id for grant in fresh]).update(held=F("held") + 1)
    for grant in inherited:
        DeviceLease.objects.filter(device_id=grant.device_id, slot=grant.slot).update(successor=deployment)


def end(deployment: Deployment) -> list[int]:
    """End every lease of ``deployment``, whose container is known not to exist.

    A lease with a live successor is handed over instead; claims this deployment had on
    others' leases lapse. Returns the ids of devices that got a free slot.
    """
    DeviceLease.objects.filter(successor=deployment).update(successor=None)
    held = DeviceLease.objects.filter(deployment=deployment).select_related("successor").order_by("device_id")
    if not held.exists():
        return []
    lock_devices(deployment.node_id)
    # Read under the lock: two passes of reconcile would count the same leases off twice.
    leases = list(held)
    freed: Counter[int] = Counter()
    for lease in leases:
        heir = lease.successor
        if heir is not None and heir.state in LIVE and not heir.exit_to:
            DeviceLease.objects.filter(pk=lease.pk).update(deployment=heir, successor=None)
        else:
            lease.delete()
            freed[lease.device_id] += 1
    for device_id, count in freed.items():
        GpuDevice.objects.filter(pk=device_id).update(held=F("held") - count)
    return sorted(freed)

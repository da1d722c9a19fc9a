"""Whose turn it is in the regular inventory."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from gpus import claims
from gpus.models import Node


def take_due_nodes() -> list[int]:
    """Ids of the nodes to probe in this round, each given to one caller only.

    A node is left out while a probe of it runs, and for two thirds of the interval after
    somebody last asked for one. However many beats tick, and at whatever distance, a node
    has its turn once an interval:

        beat A   0' takes         30' takes          60' takes
        beat B       12' nothing      42' nothing
    """
    if not settings.MIABI_GPU_ENABLED:
        return []
    now = timezone.now()
    recently = now - timedelta(minutes=settings.MIABI_GPU_INVENTORY_MINUTES) * 2 / 3
    due = Node.objects.filter(claims.free_now()).filter(
        Q(probe_requested_at=None) | Q(probe_requested_at__lte=recently)
    )
    ids = list(due.order_by("pk").values_list("pk", flat=True))
    # Row by row: whoever changes it first has it, and no lock on one node holds up the rest.
    return [pk for pk in ids if due.filter(pk=pk).update(probe_requested_at=now)]

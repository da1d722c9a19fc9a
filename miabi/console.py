"""The console's first page: the fleet at a glance, what is wrong first. Few queries, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from apps_runtime.models import Deployment, DeviceLease
from apps_runtime.states import State
from gpus.models import GpuDevice, Node
from workspaces.models import Workspace

SHOWN = 8
STALE_AFTER = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, with the list that is behind it."""

    title: str
    value: int
    link: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a workspace holds against what it may."""

    slug: str
    pk: int
    held: int
    limit: int

    @property
    def percent(self) -> int:
        return 0 if self.limit <= 0 else min(100, round(100 * self.held / self.limit))


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """unfold's ``DASHBOARD_CALLBACK``."""
    context |= {
        "tiles": _tiles(),
        "problem_nodes": _problem_nodes(),
        "holdings": _holdings(),
        "failures": _latest(Q(state=State.FAILED)),
        "latest": _latest(~Q(state=State.FAILED)),
        "node_count": Node.objects.count(),
    }
    return context


def _tiles() -> list[Tile]:
    devices = "/admin/gpus/gpudevice/"
    offered = Q(enabled=True, presence="present", health="ok", mig_enabled=False)
    counts = GpuDevice.objects.aggregate(
        total=Count("pk"),
        enabled_now=Count("pk", filter=Q(enabled=True)),
        holding=Count("pk", filter=Q(held__gt=0)),
        free=Count("pk", filter=offered & Q(free_slots__gt=0)),
        absent=Count("pk", filter=~Q(presence="present")),
        ill=Count("pk", filter=Q(health="unhealthy")),
    )
    return [
        Tile("Cards", counts["total"], devices),
        Tile("Enabled", counts["enabled_now"], f"{devices}?enabled__exact=1"),
        Tile("Held", counts["holding"], "/admin/apps_runtime/devicelease/"),
        Tile("Free", counts["free"], f"{devices}?enabled__exact=1", "may be handed out now"),
        Tile("Missing", counts["absent"], f"{devices}?presence__exact=missing"),
        Tile("Unhealthy", counts["ill"], f"{devices}?health__exact=unhealthy"),
    ]


def _problem_nodes() -> QuerySet[Node]:
    """Unreachable, without GPUs, or not read for long; the worst first."""
    old = Q(last_good_probe_at__lt=timezone.now() - STALE_AFTER)
    return (
        Node.objects.filter(Q(reachable=False) | Q(last_probe_ok=False) | Q(schedulable=False) | old)
        .order_by("reachable", "last_probe_ok", "name")
        .distinct()[:SHOWN]
    )


def _holdings() -> list[Holding]:
    held = (
        DeviceLease.objects.order_by()
        .values(workspace=F("deployment__workspace"))
        .annotate(units=Count("pk"))
        .order_by("-units")[:SHOWN]
    )
    units = {row["workspace"]: row["units"] for row in held}
    rows = Workspace.objects.select_related("plan").in_bulk(list(units))
    return [Holding(rows[pk].slug, pk, count, rows[pk].limits.gpu_units) for pk, count in units.items()]


def _latest(which: Q) -> QuerySet[Deployment]:
    return Deployment.objects.filter(which).select_related("app", "workspace", "node").order_by("-id")[:SHOWN]

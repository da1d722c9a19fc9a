"""Old history goes; what is live, and each app's latest deployment, stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from apps_runtime.models import App, Deployment, DeploymentEvent
from apps_runtime.states import TERMINAL

BATCH = 1000


@dataclass(frozen=True, slots=True)
class Pruned:
    deployments: int
    events: int


def prune(*, keep_days: int, dry_run: bool = False) -> Pruned:
    """Delete deployments that ended over ``keep_days`` days ago, with their events, and
    app events older than that which belong to no deployment.

    In batches, each in its own transaction, so that a large history locks nothing for long.
    """
    before = timezone.now() - timedelta(days=keep_days)
    latest = App.objects.annotate(last=Max("deployments__pk")).values("last")
    old = Deployment.objects.filter(state__in=sorted(TERMINAL), ended_at__lt=before, leases=None).exclude(
        pk__in=latest.exclude(last=None)
    )
    loose = DeploymentEvent.objects.filter(deployment=None, at__lt=before)
    if dry_run:
        events = DeploymentEvent.objects.filter(deployment__in=old).count() + loose.count()
        return Pruned(old.count(), events)
    deployments = events = 0
    while ids := list(old.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            events += DeploymentEvent.objects.filter(deployment__in=ids).delete()[0]
            deployments += Deployment.objects.filter(pk__in=ids).delete()[1].get("apps_runtime.Deployment", 0)
    while ids := list(loose.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        events += DeploymentEvent.objects.filter(pk__in=ids).delete()[0]
    return Pruned(deployments, events)

"""``/metrics``: gauges read from the database at each scrape, in a fixed number of queries.

Web and worker are different processes, so nothing is counted in memory: the database
knows it all, the latency of deploys too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, F, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from apps_runtime.models import Deployment
from apps_runtime.states import State
from gpus.models import GpuDevice, Node

LATENCY_BUCKETS = (0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900)
LATENCY_WINDOW = timedelta(hours=24)


class FleetCollector(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from _devices()
        yield from _deployments()
        yield from _nodes()
        yield _latency()


def _devices() -> Iterator[Metric]:
    labels = ["node", "model"]
    found = GaugeMetricFamily("miabi_gpu_devices_total", "GPU devices known, by node and model.", labels=labels)
    enabled = GaugeMetricFamily("miabi_gpu_devices_enabled", "GPU devices that may be handed out.", labels=labels)
    held = GaugeMetricFamily("miabi_gpu_allocated", "Units of GPU devices held by deployments.", labels=labels)
    missing = GaugeMetricFamily("miabi_gpu_devices_missing", "GPU devices not seen by the last probe.", labels=labels)
    unhealthy = GaugeMetricFamily("miabi_gpu_devices_unhealthy", "GPU devices with a known fault.", labels=labels)
    families = {"found": found, "enabled_now": enabled, "held_now": held, "missing": missing, "unhealthy": unhealthy}
    rows = (
        GpuDevice.objects.order_by()
        .values("node__name", "model")
        .annotate(
            found=Count("pk"),
            enabled_now=Count("pk", filter=Q(enabled=True)),
            held_now=Sum("held"),
            missing=Count("pk", filter=~Q(presence=GpuDevice.Presence.PRESENT)),
            unhealthy=Count("pk", filter=Q(health=GpuDevice.Health.UNHEALTHY)),
        )
        .values_list("node__name", "model", *families)
    )
    for node, model, *values in rows:
        for family, value in zip(families.values(), values, strict=True):
            family.add_metric([node, model], value)
    yield from families.values()


def _deployments() -> Iterator[Metric]:
    states = GaugeMetricFamily("miabi_deployments", "Deployments by state.", labels=["state"])
    counts = dict(Deployment.objects.order_by().values_list("state").annotate(Count("pk")))
    for state in State:
        states.add_metric([state], counts.get(state, 0))
    yield states


def _nodes() -> Iterator[Metric]:
    age = GaugeMetricFamily("miabi_node_probe_age_seconds", "Since the last good probe.", labels=["node"])
    failures = GaugeMetricFamily("miabi_node_probe_failures", "Failed probes in a row.", labels=["node"])
    reachable = GaugeMetricFamily("miabi_node_reachable", "1 when the engine answered last.", labels=["node"])
    now = timezone.now()
    for name, probed, failed, answers in Node.objects.values_list(
        "name", "last_good_probe_at", "probe_failures", "reachable"
    ):
        if probed is not None:
            age.add_metric([name], (now - probed).total_seconds())
        failures.add_metric([name], failed)
        if answers is not None:
            reachable.add_metric([name], int(answers))
    yield from (age, failures, reachable)


def _latency() -> Metric:
    """From the request to running, over the last 24 hours."""
    waited = (
        Deployment.objects.filter(started_at__gte=timezone.now() - LATENCY_WINDOW)
        .order_by()
        .annotate(waited=F("started_at") - F("created_at"))
    )
    counts = waited.aggregate(
        total=Count("pk"),
        seconds=Sum("waited"),
        **{
            f"le_{number}": Count("pk", filter=Q(waited__lte=timedelta(seconds=seconds)))
            for number, seconds in enumerate(LATENCY_BUCKETS)
        },
    )
    buckets: list[tuple[str, float]] = [
        (str(float(seconds)), counts[f"le_{number}"]) for number, seconds in enumerate(LATENCY_BUCKETS)
    ]
    family = HistogramMetricFamily(
        "miabi_deploy_latency_seconds", "From the request to running, deployments of the last 24 hours."
    )
    total = counts["seconds"] or timedelta()
    family.add_metric([], [*buckets, ("+Inf", counts["total"])], sum_value=total.total_seconds())
    return family


_registry = CollectorRegistry(auto_describe=False)
_registry.register(FleetCollector())


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The exposition; 404 unless ``MIABI_METRICS_ENABLED``."""
    if not settings.MIABI_METRICS_ENABLED:
        raise Http404
    return HttpResponse(generate_latest(_registry), content_type=CONTENT_TYPE_LATEST)

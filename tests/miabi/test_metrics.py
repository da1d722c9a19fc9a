"""``/metrics``: the truth of the database, in a fixed number of queries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from apps_runtime.models import App, Deployment
from tests.factories import make_app, make_device, make_node, make_workspace


@pytest.fixture(autouse=True)
def _switched_on(settings) -> None:
    settings.MIABI_METRICS_ENABLED = True


def samples() -> dict[tuple[str, tuple[str, ...]], float]:
    """Each sample by its name and the values of its labels, in the order of the labels' names."""
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def make_deployment(app: App, **fields) -> Deployment:
    number = app.deployments.count() + 1
    return Deployment.objects.create(
        **{"app": app, "workspace": app.workspace, "number": number, "spec": {}, "node": make_node()} | fields
    )


def test_there_are_no_metrics_unless_they_are_switched_on(db, settings):
    settings.MIABI_METRICS_ENABLED = False
    assert Client().get("/metrics").status_code == 404


def test_devices_are_counted_by_node_and_model(db):
    node = make_node("gpu-1")
    make_device(node, held=1)
    make_device(node, enabled=False)
    make_device(node, mode="shared", max_shares=4, held=3, model="NVIDIA A10")
    make_device(make_node("gpu-2"), presence="missing")

    found = samples()

    assert found["miabi_gpu_devices_total", ("NVIDIA L4", "gpu-1")] == 2
    assert found["miabi_gpu_devices_enabled", ("NVIDIA L4", "gpu-1")] == 1
    assert found["miabi_gpu_allocated", ("NVIDIA L4", "gpu-1")] == 1
    assert found["miabi_gpu_allocated", ("NVIDIA A10", "gpu-1")] == 3
    assert found["miabi_gpu_devices_missing", ("NVIDIA L4", "gpu-2")] == 1


def test_deployments_are_counted_in_every_state_those_without_any_too(db):
    app = make_app(make_workspace())
    make_deployment(app, state="running")
    make_deployment(app, state="failed")
    make_deployment(app, state="failed")

    found = samples()

    assert found["miabi_deployments", ("failed",)] == 2
    assert found["miabi_deployments", ("running",)] == 1
    assert found["miabi_deployments", ("queued",)] == 0


def test_the_age_of_a_probe_counts_from_the_last_good_one_and_is_unknown_before_it(db):
    make_node("probed", last_good_probe_at=timezone.now() - timedelta(minutes=5), probe_failures=2)
    make_node("never")

    found = samples()

    assert 300 <= found["miabi_node_probe_age_seconds", ("probed",)] < 360
    assert found["miabi_node_probe_failures", ("probed",)] == 2
    assert ("miabi_node_probe_age_seconds", ("never",)) not in found


def test_the_latency_of_deploys_is_a_histogram_of_the_last_day(db):
    app = make_app(make_workspace())
    now = timezone.now()
    for seconds, ago in ((0.4, 0), (3, 0), (3, 0), (2000, 0), (1, 48)):
        started = now - timedelta(hours=ago)
        row = make_deployment(app, state="running", started_at=started)
        Deployment.objects.filter(pk=row.pk).update(created_at=started - timedelta(seconds=seconds))
    make_deployment(app)

    found = samples()

    name = "miabi_deploy_latency_seconds"
    buckets = {bound: found[f"{name}_bucket", (bound,)] for bound in ("0.25", "0.5", "5.0", "900.0", "+Inf")}
    assert buckets == {"0.25": 0, "0.5": 1, "5.0": 3, "900.0": 3, "+Inf": 4}
    assert found[f"{name}_count", ()] == 4
    assert found[f"{name}_sum", ()] == pytest.approx(2006.4)


def test_an_empty_installation_has_metrics_too(db):
    found = samples()
    assert found["miabi_deploy_latency_seconds_count", ()] == 0


def test_a_scrape_costs_the_same_number_of_queries_whatever_there_is(db):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            samples()
        return len(captured)

    before = queries()
    for _ in range(10):
        make_device(make_node())
        make_deployment(make_app(make_workspace()), state="running", started_at=timezone.now())

    assert queries() == before
    assert before < 10


def test_a_name_with_quotes_and_line_ends_does_not_break_the_format(db):
    make_device(make_node(), model='NVIDIA "L4"\n\\ x')
    assert any(labels and labels[0] == 'NVIDIA "L4"\n\\ x' for _, labels in samples())

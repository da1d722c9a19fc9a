"""Cards that pass from one deployment of an app to the next."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle, steps
from apps_runtime.models import App, Deployment, DeviceLease
from gpus.models import GpuDevice
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


def test_many_redeploys_before_any_work_end_with_one_container_and_its_cards(host):
    app = make_app(make_workspace(), gpu=2)
    for _ in range(3):
        lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    lifecycle.request_deploy(app, actor=PLATFORM)
    App.objects.filter(pk=app.pk).update(gpu=1)
    last = lifecycle.request_deploy(app, actor=PLATFORM)

    steps.advance(app.pk)

    last.refresh_from_db()
    assert last.state == "running"
    assert DeviceLease.objects.get().deployment == last
    assert sum(GpuDevice.objects.values_list("held", flat=True)) == 1
    assert len(host.containers) == 1


def test_a_stop_during_the_hand_over_ends_both_and_frees_the_card_with_the_first_container(host, settings):
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = 1
    app = make_app(make_workspace(), gpu=1)
    first = lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    host.faults.unkillable = True
    second = lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    second.refresh_from_db()
    assert second.state == "creating"

    lifecycle.request_stop(app, actor=PLATFORM)
    steps.advance(app.pk)
    lease = DeviceLease.objects.get()
    assert (lease.deployment, lease.successor) == (first, None)

    host.faults.unkillable = False
    Deployment.objects.update(retry_at=None)
    steps.advance(app.pk)
    assert not DeviceLease.objects.exists()
    assert set(app.deployments.values_list("state", flat=True)) == {"stopped"}

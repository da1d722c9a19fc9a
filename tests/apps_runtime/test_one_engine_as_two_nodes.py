"""One engine that is registered twice."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle, reconcile, steps
from gpus.models import Node
from tests.factories import make_app, make_node, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


def test_a_container_that_runs_for_one_node_is_left_alone_by_the_other(host):
    app = make_app(make_workspace(), gpu=1)
    lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    twin = make_node("gpu-2", address=Node.objects.get().address)

    report = reconcile.reconcile_node(twin.pk)

    assert (report.containers, report.removed) == (1, 0)
    assert [container.status for container in host.containers.values()] == ["running"]


def test_what_is_left_of_an_ended_deployment_is_removed_through_either(host):
    app = make_app(make_workspace(), gpu=1)
    lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    app.deployments.update(state="failed")
    twin = make_node("gpu-2", address=Node.objects.get().address)

    assert reconcile.reconcile_node(twin.pk).removed == 1
    assert not host.containers

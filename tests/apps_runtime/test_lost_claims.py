"""A worker that hung while another took its app over."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle, reconcile, steps
from apps_runtime.models import App, DeviceLease
from engines.docker import DockerEngine
from gpus.models import Node
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


def test_a_worker_that_lost_its_claim_while_creating_starts_nothing(host, monkeypatch):
    app = make_app(make_workspace(), gpu=1)
    lifecycle.request_deploy(app, actor=PLATFORM)
    create = DockerEngine.create

    def hangs_until_another_worker_is_done(engine, spec) -> str:
        monkeypatch.setattr(DockerEngine, "create", create)
        App.objects.filter(pk=app.pk).update(claim_token=None, claim_expires_at=None)
        lifecycle.request_stop(app, actor=PLATFORM)
        steps.advance(app.pk)
        assert not DeviceLease.objects.exists()
        return create(engine, spec)

    monkeypatch.setattr(DockerEngine, "create", hangs_until_another_worker_is_done)
    steps.advance(app.pk)

    assert [container.status for container in host.containers.values()] == ["created"]
    reconcile.reconcile_node(Node.objects.get().pk)
    assert not host.containers

"""Deleting an app and its volumes while its node cannot be reached."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle, steps
from apps_runtime.models import App, Volume
from gpus.models import Node
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


def test_an_app_is_deleted_with_its_volumes_once_the_node_is_back(host):
    workspace = make_workspace()
    Volume.objects.create(workspace=workspace, name="data")
    app = make_app(workspace, mounts=[{"volume": "data", "path": "/data"}])
    lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    lifecycle.request_stop(app, actor=PLATFORM)
    steps.advance(app.pk)
    address = Node.objects.get().address
    Node.objects.update(address="unix:///nowhere/engine.sock")
    lifecycle.request_delete(app, actor=PLATFORM, purge=True)

    steps.advance(app.pk)
    assert list(steps.due_apps()) == [app.pk]
    assert Volume.objects.exists()

    Node.objects.update(address=address)
    steps.advance(app.pk)
    assert not App.objects.exists()
    assert not Volume.objects.exists()
    assert not host.volumes.records

"""A worker goes on from any state it finds, and stops when there is nothing it can do."""

from __future__ import annotations

import pytest

from apps_runtime import bring_up, lifecycle, steps, transitions
from apps_runtime.models import Deployment
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


def queued() -> Deployment:
    return lifecycle.request_deploy(make_app(make_workspace(), gpu=1), actor=PLATFORM)


@pytest.mark.parametrize("state", ["queued", "placing", "pulling", "creating", "starting"])
def test_a_deployment_left_in_any_state_comes_up(host, state):
    deployment = queued()
    host.images.add("registry.example.com/acme/app:1")
    Deployment.objects.update(state=state)

    steps.advance(deployment.app_id)

    deployment.refresh_from_db()
    assert deployment.state == "running"
    assert [container.status for container in host.containers.values()] == ["running"]


def test_a_step_that_is_refused_and_changes_nothing_is_not_repeated_for_ever(host, monkeypatch):
    deployment = queued()
    tries = []

    def refused(*args) -> None:
        tries.append(args)
        assert len(tries) < 10, "tried for ever"
        raise transitions.MovedElsewhere

    monkeypatch.setattr(bring_up, "bring_up", refused)
    steps.advance(deployment.app_id)
    assert 1 <= len(tries) <= 2

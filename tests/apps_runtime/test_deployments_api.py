"""Deployments over the API: history, devices, logs."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from apps_runtime import lifecycle, steps
from apps_runtime.models import App, Deployment
from tests.factories import make_app, make_device, make_member, make_node, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]

APP = "/api/v1/workspaces/vision/apps/web"


@pytest.fixture
def workspace():
    return make_workspace("vision")


@pytest.fixture
def tenant(workspace) -> APIClient:
    client = APIClient()
    client.force_authenticate(make_member(workspace))
    return client


@pytest.fixture
def app(workspace) -> App:
    return make_app(workspace, "web", gpu=1)


def test_an_attempt_tells_its_states_its_devices_and_its_node(tenant, app):
    device = make_device(make_node("gpu-1"), model="NVIDIA L4")
    lifecycle.request_deploy(app, actor=PLATFORM)
    told = tenant.get(f"{APP}/deployments/1").json()
    assert [step["state"] for step in told["history"]] == ["queued"]
    assert told["history"][0]["seconds"] is None
    assert told["devices"] == [{"uuid": device.uuid, "model": "NVIDIA L4", "memory_mib": 23034, "shared": False}]
    assert (told["node"], told["gpu_units"], told["requested_by"]) == ("gpu-1", 1, "platform")


def test_what_has_ended_holds_nothing_and_says_why(tenant, app):
    make_device(make_node("gpu-1"))
    lifecycle.request_deploy(app, actor=PLATFORM)
    assert tenant.post(f"{APP}/stop").status_code == 202
    steps.advance(app.pk)
    told = tenant.get(f"{APP}/deployments/1").json()
    assert (told["state"], told["reason_code"], told["devices"]) == ("stopped", "stopped", [])
    assert [step["state"] for step in told["history"]] == ["queued", "stopped"]
    assert told["history"][0]["seconds"] >= 0


def test_a_refused_deploy_is_kept_in_the_apps_history(tenant, app):
    make_node("gpu-1")
    refused = tenant.post(f"{APP}/deploy").json()
    (event,) = tenant.get(f"{APP}/events").json()["results"]
    assert (event["code"], event["message"], event["deployment"]) == ("gpu_no_device", refused["detail"], None)


def test_stopping_what_was_never_deployed_is_nothing(tenant, app):
    assert tenant.post(f"{APP}/stop").status_code == 204


@pytest.mark.parametrize("accept", ["*/*", "text/plain", "application/json"])
def test_logs_are_text_whatever_is_accepted(tenant, app, accept):
    make_device(make_node())
    deployment = lifecycle.request_deploy(app, actor=PLATFORM)
    lifecycle.request_stop(app, actor=PLATFORM)
    Deployment.objects.filter(pk=deployment.pk).update(log_tail="one\ntwo\nthree\n")
    answer = tenant.get(f"{APP}/logs?tail=2", headers={"accept": accept})
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert b"".join(answer.streaming_content) == b"two\nthree\n"


def test_logs_of_an_earlier_attempt_are_asked_for_by_number(tenant, app):
    make_device(make_node())
    for text in ("first\n", "second\n"):
        deployment = lifecycle.request_deploy(app, actor=PLATFORM)
        lifecycle.request_stop(app, actor=PLATFORM)
        Deployment.objects.filter(pk=deployment.pk).update(log_tail=text)
    assert b"".join(tenant.get(f"{APP}/logs?deployment=1").streaming_content) == b"first\n"
    assert b"".join(tenant.get(f"{APP}/logs").streaming_content) == b"second\n"
    assert tenant.get(f"{APP}/logs?deployment=3").status_code == 404


@pytest.mark.parametrize("query", ["tail=-1", "tail=x", "tail=10001", "follow=perhaps", "deployment=0"])
def test_odd_questions_for_logs_are_malformed(tenant, app, query):
    answer = tenant.get(f"{APP}/logs?{query}", headers={"accept": "text/plain"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/json")


def test_the_list_filters_by_node(tenant, app):
    make_device(make_node("gpu-1"))
    lifecycle.request_deploy(app, actor=PLATFORM)
    assert tenant.get("/api/v1/workspaces/vision/apps?node=gpu-1").json()["count"] == 1
    assert tenant.get("/api/v1/workspaces/vision/apps?node=gpu-2").json()["count"] == 0


@pytest.mark.parametrize(("query", "purge"), [("", False), ("?purge=true", True), ("?purge=false", False)])
def test_deleting_takes_volumes_along_only_when_asked(tenant, app, query, purge):
    assert tenant.delete(APP + query).status_code == 202
    app.refresh_from_db()
    assert (app.desired_state, app.purge) == ("deleted", purge)


def test_an_unclear_purge_deletes_nothing(tenant, app):
    assert tenant.delete(f"{APP}?purge=perhaps").status_code == 400
    app.refresh_from_db()
    assert app.desired_state != "deleted"

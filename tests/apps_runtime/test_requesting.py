"""What people may ask for, without an engine: admission, supersession, refusals and their trace."""

from __future__ import annotations

import pytest
from celery import current_app
from kombu.exceptions import OperationalError

from apps_runtime import lifecycle, steps
from apps_runtime.models import App, Deployment, DeploymentEvent, DeviceLease
from apps_runtime.states import State
from refusals import Refusal
from tests.factories import make_app, make_device, make_node, make_plan, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]


@pytest.fixture
def node():
    return make_node("gpu-1")


@pytest.fixture
def workspace():
    return make_workspace("vision", plan=make_plan(gpu_limit=2))


def deploy(app: App) -> Deployment:
    return lifecycle.request_deploy(app, actor=PLATFORM)


def refused(app: App):
    with pytest.raises(Refusal) as refusal:
        deploy(app)
    return refusal.value


def running(app: App) -> Deployment:
    deployment = deploy(app)
    Deployment.objects.filter(pk=deployment.pk).update(state=State.RUNNING, engine_handle="c1")
    return deployment


def test_an_admitted_deploy_holds_its_device_at_once(workspace, node):
    device = make_device(node)
    deployment = deploy(make_app(workspace, gpu=1))
    assert (deployment.state, deployment.node) == (State.QUEUED, node)
    device.refresh_from_db()
    assert (device.held, device.free_slots) == (1, 0)
    assert list(deployment.leases.values_list("device", "slot")) == [(device.pk, 0)]


def test_the_worker_is_woken_only_after_the_commit(workspace, node, wakes, django_capture_on_commit_callbacks):
    app = make_app(workspace)
    with django_capture_on_commit_callbacks(execute=False):
        deploy(app)
        assert wakes == []
    with django_capture_on_commit_callbacks(execute=True):
        deploy(app)
    assert wakes == [app.pk]


def test_a_refusal_leaves_nothing_but_its_trace(workspace, node):
    make_device(node)
    app = make_app(workspace, gpu=2)
    refusal = refused(app)
    assert refusal.code == "gpu_no_device"
    assert not Deployment.objects.exists()
    assert not DeviceLease.objects.exists()
    assert list(DeploymentEvent.objects.values_list("app", "code")) == [(app.pk, "gpu_no_device")]


def test_the_refusal_says_what_exists_and_why_each_was_passed_over(workspace, node):
    make_device(node, enabled=False)
    make_device(node, presence="missing")
    make_device(node, model="NVIDIA A100-SXM4-80GB")
    refusal = refused(make_app(workspace, gpu=1, gpu_kind="l4", node=node))
    assert refusal.detail.startswith(
        "Node gpu-1 cannot give 1 device of kind l4 now: 3 exist, 1 enabled and matching, 0 free"
    )
    for reason in ("1 not enabled", "1 missing since the last inventory", "1 of another kind"):
        assert reason in refusal.detail
    assert refusal.facts["exist"] == 3


def test_a_node_without_the_toolkit_refuses_gpus_by_name(workspace, node):
    node.gpu_capable = False
    node.save()
    make_device(node)
    refusal = refused(make_app(workspace, gpu=1, node=node))
    assert (refusal.code, refusal.status) == ("gpu_node_not_capable", 409)
    assert "gpu-1" in refusal.detail
    assert refused(make_app(workspace, gpu=1)).code == "gpu_node_not_capable"


def test_a_cordoned_node_takes_nothing_new(workspace, node):
    node.schedulable = False
    node.save()
    make_device(node)
    assert refused(make_app(workspace, gpu=1, node=node)).code == "node_unavailable"
    assert refused(make_app(workspace, gpu=0)).code == "node_unavailable"


def test_the_quota_counts_other_apps_and_not_the_app_itself(workspace, node):
    for _ in range(4):
        make_device(node)
    first, second = make_app(workspace, gpu=2), make_app(workspace, gpu=1)
    deploy(first)
    refusal = refused(second)
    assert refusal.code == "gpu_quota_exceeded"
    assert refusal.facts == {"limit": 2, "used": 2, "requested": 1}
    assert deploy(first).number == 2


def test_without_plan_enforcement_quota_and_capability_are_not_asked(workspace, node, settings):
    settings.MIABI_PLAN_ENFORCEMENT = False
    workspace.plan.gpu_allowed = False
    workspace.plan.save()
    for _ in range(3):
        make_device(node)
    assert deploy(make_app(workspace, gpu=3)).state == State.QUEUED


def test_entitlement_is_checked_again_at_every_start(workspace, node):
    make_device(node)
    app = make_app(workspace, gpu=1)
    deployment = running(app)
    lifecycle.request_stop(app, actor=PLATFORM)
    Deployment.objects.filter(pk=deployment.pk).update(state=State.STOPPED)
    workspace.gpu_allowed = False
    workspace.save()
    with pytest.raises(Refusal) as refusal:
        lifecycle.request_start(app, actor=PLATFORM)
    assert refusal.value.code == "gpu_not_allowed"


def test_a_suspended_workspace_starts_nothing_but_may_stop(workspace, node):
    app = make_app(workspace)
    running(app)
    workspace.suspended = True
    workspace.save()
    assert refused(app).code == "workspace_suspended"
    assert lifecycle.request_stop(app, actor=PLATFORM) is not None


def test_a_redeploy_keeps_the_card_and_what_runs_goes_on(workspace, node):
    make_device(node)
    app = make_app(workspace, gpu=1)
    first = running(app)
    second = deploy(app)
    first.refresh_from_db()
    assert (first.state, first.exit_to) == (State.RUNNING, "")
    lease = DeviceLease.objects.get()
    assert (lease.deployment, lease.successor) == (first, second)


def test_a_card_disabled_since_is_not_kept_by_a_redeploy(workspace, node):
    old, new = make_device(node), make_device(node, index=999)
    app = make_app(workspace, gpu=1)
    running(app)
    old.refresh_from_db()
    old.enabled = False
    old.save()
    second = deploy(app)
    assert list(second.leases.values_list("device", flat=True)) == [new.pk]


def test_a_newer_deploy_supersedes_one_that_is_still_coming_up(workspace, node):
    make_device(node)
    app = make_app(workspace, gpu=1)
    first, second = deploy(app), deploy(app)
    first.refresh_from_db()
    assert (first.exit_to, first.reason_code) == (State.SUPERSEDED, "superseded")
    assert DeviceLease.objects.get().successor == second


def test_a_stop_before_anything_ran_frees_the_card_without_an_engine(workspace, node):
    device = make_device(node)
    app = make_app(workspace, gpu=1)
    deployment = deploy(app)
    lifecycle.request_stop(app, actor=PLATFORM)
    steps.advance(app.pk)
    deployment.refresh_from_db()
    device.refresh_from_db()
    assert (deployment.state, deployment.reason_code, device.held) == (State.STOPPED, "stopped", 0)


def test_stopping_twice_is_fine_and_recorded_once(workspace, node):
    app = make_app(workspace)
    running(app)
    lifecycle.request_stop(app, actor=PLATFORM)
    lifecycle.request_stop(app, actor=PLATFORM)
    assert AuditEvent.objects.filter(verb="app.stop").count() == 1


def test_a_running_app_cannot_be_started_again_and_a_stopped_one_not_restarted(workspace, node):
    app = make_app(workspace)
    running(app)
    with pytest.raises(lifecycle.AlreadyRunning):
        lifecycle.request_start(app, actor=PLATFORM)
    with pytest.raises(lifecycle.NotRunning):
        lifecycle.request_restart(make_app(workspace), actor=PLATFORM)
    with pytest.raises(lifecycle.NeverDeployed):
        lifecycle.request_redeploy(make_app(workspace), actor=PLATFORM)


def test_start_repeats_the_last_spec_and_deploy_takes_the_present_one(workspace, node):
    app = make_app(workspace, tag="1")
    deployment = running(app)
    lifecycle.request_stop(app, actor=PLATFORM)
    Deployment.objects.filter(pk=deployment.pk).update(state=State.STOPPED)
    App.objects.filter(pk=app.pk).update(tag="2")
    assert lifecycle.request_start(app, actor=PLATFORM).spec["image"].endswith(":1")
    assert deploy(app).spec["image"].endswith(":2")


def test_an_app_that_is_being_deleted_is_not_deployed_again(workspace, node):
    app = make_app(workspace)
    running(app)
    lifecycle.request_delete(app, actor=PLATFORM)
    assert refused(app).code == "app_being_deleted"


def test_the_smallest_block_of_free_cards_that_suffices_is_taken(workspace):
    large, small = make_node("large"), make_node("small")
    for _ in range(3):
        make_device(large)
    make_device(small)
    assert deploy(make_app(workspace, gpu=1)).node == small


def test_a_broker_that_is_down_costs_no_error(workspace, node, monkeypatch, django_capture_on_commit_callbacks):
    def down(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr(current_app, "send_task", down)
    app = make_app(workspace)
    with django_capture_on_commit_callbacks(execute=True):
        deployment = deploy(app)
    assert deployment.state == State.QUEUED
    assert list(steps.due_apps()) == [app.pk]

"""The worker against a node that fails in every way: nothing is lost, nothing is held twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps_runtime import bring_up, lifecycle, reconcile, steps
from apps_runtime.models import App, Deployment, DeploymentEvent, DeviceLease
from apps_runtime.states import State
from engines.virtual.faults import Fault
from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving, serve
from gpus import claims
from gpus.connections import engine_for
from gpus.models import Node
from refusals import Refusal
from tests.factories import make_app, make_device, make_node, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]


@pytest.fixture
def virtual() -> VirtualNode:
    return VirtualNode.with_cards("virtual", 2, pull_seconds=0.0)


@pytest.fixture
def serving(virtual: VirtualNode, tmp_path: Path, settings) -> Iterator[Serving]:
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = 0.5
    settings.MIABI_STOP_GRACE_SECONDS = 0.2
    with serve([virtual], tmp_path) as running:
        yield running


@pytest.fixture
def node(serving: Serving, virtual: VirtualNode) -> Node:
    made = make_node("virtual", address=serving.urls[0])
    for number, card in enumerate(virtual.cards):
        make_device(made, uuid=card.uuid, index=number)
    return made


@pytest.fixture
def app(node: Node) -> App:
    return make_app(make_workspace("vision"), "web", gpu=1, node=node, command=["sleep", "infinity"])


def deploy(app: App) -> Deployment:
    deployment = lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    deployment.refresh_from_db()
    return deployment


def work(app: App) -> Deployment:
    """As the sweep does when a retry is due."""
    Deployment.objects.update(retry_at=None)
    steps.advance(app.pk)
    latest = app.deployments.first()
    assert latest is not None
    return latest


def stop(app: App) -> Deployment:
    lifecycle.request_stop(app, actor=PLATFORM)
    return work(app)


def test_a_deploy_runs_through_every_state_in_order(app):
    deployment = deploy(app)
    assert list(deployment.events.exclude(state="").values_list("state", flat=True)) == [
        "queued",
        "placing",
        "pulling",
        "creating",
        "starting",
        "verifying",
        "running",
    ]
    times = list(deployment.events.order_by("id").values_list("at", flat=True))
    assert times == sorted(times)


def test_the_container_is_told_what_it_was_granted(app, virtual):
    deploy(app)
    (container,) = virtual.containers.values()
    env = dict(pair.split("=", 1) for pair in container.config["Env"])
    assert env["MIABI_GPU_COUNT"] == "1"
    assert env["MIABI_GPU_UUIDS"] == env["NVIDIA_VISIBLE_DEVICES"] == DeviceLease.objects.get().device.uuid


def test_an_isolation_breach_removes_the_container_and_fails_the_deploy(app, virtual):
    virtual.faults.inside_shows = ["all"]
    deployment = deploy(app)
    assert (deployment.state, deployment.reason_code) == (State.FAILED, "gpu_isolation_breach")
    assert deployment.verification == "breach"
    assert not virtual.containers
    assert not DeviceLease.objects.exists()
    assert not any(card.uuid in deployment.reason for card in virtual.cards)


def test_a_record_that_names_other_devices_is_a_breach_too(app, virtual):
    virtual.faults.record_shows = [card.uuid for card in virtual.cards]
    assert deploy(app).reason_code == "gpu_isolation_breach"
    assert not virtual.containers


def test_a_lost_answer_to_create_makes_no_second_container(app, virtual):
    virtual.faults.add(Fault("act_then_drop", "create", times=1))
    assert deploy(app).state == State.CREATING
    assert work(app).state == State.RUNNING
    assert len(virtual.containers) == 1


def test_a_lost_answer_to_start_runs_a_job_once(app, virtual):
    App.objects.filter(pk=app.pk).update(command=["echo", "ran"])
    app.refresh_from_db()
    virtual.faults.add(Fault("act_then_drop", "start", times=1))
    deploy(app)
    deployment = work(app)
    assert (deployment.state, deployment.reason_code) == (State.STOPPED, "completed")
    assert deployment.log_tail.count("ran") == 1


def test_an_engine_that_does_not_answer_is_tried_again_and_then_the_deploy_fails(app, virtual, settings):
    settings.MIABI_MAX_ATTEMPTS = 3
    virtual.faults.add(Fault("drop", "create"))
    deployment = deploy(app)
    assert (deployment.state, deployment.attempts) == (State.CREATING, 1)
    for _ in range(3):
        deployment = work(app)
    assert (deployment.state, deployment.reason_code) == (State.FAILED, "node_unreachable")
    assert not DeviceLease.objects.exists()


def test_an_unreachable_node_keeps_its_leases_until_it_answers(app, virtual):
    deploy(app)
    gone = Fault("drop")
    virtual.faults.add(gone)
    deployment = stop(app)
    assert deployment.state == State.STOPPING
    assert work(app).state == State.STOPPING
    assert reconcile.reconcile_node(app.node_id).reachable is False
    assert DeviceLease.objects.count() == 1
    virtual.faults.active.remove(gone)
    assert work(app).state == State.STOPPED
    assert not DeviceLease.objects.exists()


def test_a_process_that_cannot_be_killed_keeps_its_card(app, virtual):
    deploy(app)
    virtual.faults.unkillable = True
    assert stop(app).state == State.STOPPING
    assert DeviceLease.objects.count() == 1
    other = make_app(app.workspace, "other", gpu=2, node=app.node)
    with pytest.raises(Refusal):
        lifecycle.request_deploy(other, actor=PLATFORM)
    virtual.faults.unkillable = False
    assert work(app).state == State.STOPPED
    assert deploy(other).state == State.RUNNING


class Killed(BaseException):
    """As SIGKILL: nothing of the worker runs after it."""


class DeadlyEngine:
    """The real engine, whose caller dies right after ``deadly`` has been done."""

    def __init__(self, engine, deadly: str) -> None:
        self.engine, self.deadly = engine, deadly

    def __getattr__(self, name: str):
        def call(*args, **kwargs):
            answer = getattr(self.engine, name)(*args, **kwargs)
            if name == self.deadly:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("deadly", ["image_present", "create", "start", "inspect", "execute"])
def test_a_worker_killed_after_any_engine_call_is_followed_by_one_that_finishes(app, virtual, monkeypatch, deadly):
    with monkeypatch.context() as patched:
        patched.setattr(bring_up, "engine_for", lambda node: DeadlyEngine(engine_for(node), deadly))
        patched.setattr(claims, "release", lambda *args: False)
        deployment = lifecycle.request_deploy(app, actor=PLATFORM)
        with pytest.raises(Killed):
            steps.advance(app.pk)
    assert list(steps.due_apps()) == []  # still claimed
    App.objects.update(claim_expires_at=None)  # the claim runs out
    steps.advance(app.pk)
    deployment.refresh_from_db()
    assert deployment.state == State.RUNNING
    assert len(virtual.containers) == 1
    assert DeviceLease.objects.count() == 1


def test_a_result_is_dropped_when_the_claim_was_taken_over(app, monkeypatch):
    deployment = lifecycle.request_deploy(app, actor=PLATFORM)

    def slow(node):
        # While this worker is away, its claim runs out and another one takes the app.
        App.objects.update(claim_token=None, claim_expires_at=None)
        return engine_for(node)

    with monkeypatch.context() as patched:
        patched.setattr(bring_up, "engine_for", slow)
        steps.advance(app.pk)
    deployment.refresh_from_db()
    assert deployment.state == State.QUEUED
    assert work(app).state == State.RUNNING


def test_a_message_that_comes_twice_or_for_a_settled_app_does_nothing(app, virtual):
    deploy(app)
    events = DeploymentEvent.objects.count()
    steps.advance(app.pk)
    steps.advance(app.pk)
    assert (len(virtual.containers), DeploymentEvent.objects.count()) == (1, events)
    assert list(steps.due_apps()) == []


def test_a_redeploy_hands_the_card_over_without_letting_it_go(app, virtual):
    first = deploy(app)
    held = DeviceLease.objects.get().device
    second = deploy(app)
    first.refresh_from_db()
    assert (first.state, second.state) == (State.SUPERSEDED, State.RUNNING)
    lease = DeviceLease.objects.get()
    assert (lease.device, lease.deployment, lease.successor) == (held, second, None)
    assert len(virtual.containers) == 1


def test_a_redeploy_whose_image_cannot_be_pulled_leaves_what_runs(app, virtual):
    first = deploy(app)
    virtual.any_image = False
    App.objects.filter(pk=app.pk).update(tag="none")
    app.refresh_from_db()
    second = deploy(app)
    first.refresh_from_db()
    assert (first.state, second.state, second.reason_code) == (State.RUNNING, State.FAILED, "image_unavailable")
    lease = DeviceLease.objects.get()
    assert (lease.deployment, lease.successor) == (first, None)


def test_a_reboot_ends_what_ran_and_frees_the_cards(app, virtual, serving):
    deploy(app)
    serving.call(virtual.restart)
    reconcile.reconcile_node(app.node_id)
    deployment = work(app)
    assert (deployment.state, deployment.reason_code, deployment.exit_code) == (State.FAILED, "container_exited", 137)
    assert not DeviceLease.objects.exists()


def test_a_held_count_that_is_off_is_mended(app):
    deploy(app)
    device = DeviceLease.objects.get().device
    device.held = 0
    device.save(update_fields=["held"])
    assert reconcile.reconcile_node(app.node_id).counts_mended == 1
    device.refresh_from_db()
    assert device.held == 1


def test_deleting_with_purge_removes_only_the_volumes_nobody_else_names(app, virtual):
    from apps_runtime.models import Volume

    for name in ("own", "shared"):
        Volume.objects.create(workspace=app.workspace, name=name)
    mounts = [{"volume": name, "path": f"/{name}", "read_only": False} for name in ("own", "shared")]
    App.objects.filter(pk=app.pk).update(mounts=mounts)
    make_app(app.workspace, "other", mounts=mounts[1:])
    app.refresh_from_db()
    deploy(app)
    assert sorted(virtual.volumes.records) == ["miabi-vision.own", "miabi-vision.shared"]
    lifecycle.request_delete(app, actor=PLATFORM, purge=True)
    steps.advance(app.pk)
    assert not App.objects.filter(pk=app.pk).exists()
    assert list(virtual.volumes.records) == ["miabi-vision.shared"]
    assert list(Volume.objects.values_list("name", flat=True)) == ["shared"]

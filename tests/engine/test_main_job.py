"""The main job on a real Docker Engine: from a discovered card to a container that sees exactly it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import docker
import pytest
from celery import current_app
from rest_framework.test import APIClient

from apps_runtime import reconcile, steps
from apps_runtime.models import App, Deployment, DeviceLease
from apps_runtime.specs import LABEL_PREFIX
from gpus.inventory import probe_node
from gpus.models import GpuDevice, Node
from tests.factories import make_member, make_node, make_operator, make_plan, make_workspace
from tests.services.fleet import Fleet
from tests.services.images import BUSYBOX, EVERY_CARD
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

CARD = re.compile(r"\(UUID: (\S+)\)")
STAY = ["sh", "-c", "nvidia-smi -L; exec sleep 1000"]


@pytest.fixture(autouse=True)
def _platform(settings, monkeypatch) -> None:
    settings.MIABI_GPU_ENABLED = True
    settings.MIABI_STOP_GRACE_SECONDS = 1
    monkeypatch.setattr(current_app, "send_task", lambda *args, **kwargs: None)


@pytest.fixture
def workspace() -> Workspace:
    return make_workspace("vision", plan=make_plan(gpu_limit=2))


@pytest.fixture
def tenant(workspace: Workspace) -> APIClient:
    client = APIClient()
    client.force_authenticate(make_member(workspace, "developer"))
    return client


@pytest.fixture
def operator() -> APIClient:
    client = APIClient()
    client.force_authenticate(make_operator())
    return client


@pytest.fixture
def node(docker_engine: str, docker_client: docker.APIClient) -> Iterator[Node]:
    yield make_node("gpu-1", engine=Node.Engine.DOCKER, address=docker_engine, gpu_capable=False)
    _remove_ours(docker_client)


def _remove_ours(client: docker.APIClient) -> None:
    for container in client.containers(all=True, filters={"label": LABEL_PREFIX + "installation"}):
        client.remove_container(container["Id"], force=True, v=True)


def discover(node: Node) -> list[GpuDevice]:
    outcome = probe_node(node.pk)
    assert outcome.code == "", outcome
    return list(node.devices.order_by("index"))


def enable(*devices: GpuDevice) -> None:
    GpuDevice.objects.filter(pk__in=[device.pk for device in devices]).update(enabled=True)


def declare(tenant: APIClient, name: str, **fields) -> App:
    image, _, tag = BUSYBOX.partition(":")
    body = {"name": name, "image": image, "tag": tag, "command": STAY, "gpu": 1} | fields
    answer = tenant.post("/api/v1/workspaces/vision/apps", body)
    assert answer.status_code == 201, answer.json()
    return App.objects.get(name=name)


def ask(tenant: APIClient, name: str, verb: str):
    return tenant.post(f"/api/v1/workspaces/vision/apps/{name}/{verb}")


def deploy(tenant: APIClient, app: App) -> Deployment:
    answer = ask(tenant, app.name, "deploy")
    assert answer.status_code == 202, answer.json()
    steps.advance(app.pk)
    return Deployment.objects.get(app=app, number=answer.json()["number"])


def printed(tenant: APIClient, app: App) -> str:
    answer = tenant.get(f"/api/v1/workspaces/vision/apps/{app.name}/logs")
    assert answer.status_code == 200
    return answer.getvalue().decode()


def test_new_cards_arrive_disabled_with_all_that_was_read(node, fleet: Fleet):
    devices = discover(node)
    assert [device.uuid for device in devices] == fleet.uuids
    assert [device.model for device in devices] == [card.model for card in fleet.cards]
    assert [device.memory_mib for device in devices] == [card.memory_mib for card in fleet.cards]
    assert [device.minor_number for device in devices] == [card.minor for card in fleet.cards]
    assert not any(device.enabled for device in devices)
    node.refresh_from_db()
    assert (node.gpu_capable, node.last_probe_ok, node.reachable) == (True, True, True)
    assert node.facts["engine_version"]


def test_the_probe_leaves_no_container_behind(node, docker_client: docker.APIClient):
    discover(node)
    assert docker_client.containers(all=True, filters={"label": LABEL_PREFIX + "role=probe"}) == []


def test_a_container_sees_exactly_the_card_of_its_lease(node, tenant):
    devices = discover(node)
    enable(devices[2])
    app = declare(tenant, "inference")
    deployment = deploy(tenant, app)
    assert (deployment.state, deployment.verification) == ("running", "ok")
    assert CARD.findall(printed(tenant, app)) == [devices[2].uuid]
    told = tenant.get("/api/v1/workspaces/vision/apps/inference/deployments/1").json()
    assert [device["uuid"] for device in told["devices"]] == [devices[2].uuid]


def test_two_cards_of_four_are_seen_and_no_other(node, tenant):
    devices = discover(node)
    enable(devices[1], devices[3])
    app = declare(tenant, "training", gpu=2)
    assert deploy(tenant, app).state == "running"
    assert sorted(CARD.findall(printed(tenant, app))) == sorted([devices[1].uuid, devices[3].uuid])


def test_a_dedicated_card_is_refused_to_a_second_app(node, tenant):
    enable(discover(node)[0])
    deploy(tenant, declare(tenant, "first"))
    declare(tenant, "second")
    answer = ask(tenant, "second", "deploy")
    assert (answer.status_code, answer.json()["code"]) == (409, "gpu_no_device")
    assert "gpu" in answer.json()["errors"][0]["attr"]


def test_the_quota_refuses_with_figures_and_a_stop_frees_the_units(node, tenant):
    enable(*discover(node))
    first = declare(tenant, "first", gpu=2)
    deploy(tenant, first)
    second = declare(tenant, "second")
    answer = ask(tenant, "second", "deploy")
    assert (answer.status_code, answer.json()["code"]) == (409, "gpu_quota_exceeded")
    assert answer.json()["facts"] == {"limit": 2, "used": 2, "requested": 1}

    assert ask(tenant, "first", "stop").status_code == 202
    steps.advance(first.pk)

    assert Deployment.objects.get(app=first).state == "stopped"
    assert not DeviceLease.objects.exists()
    assert deploy(tenant, second).state == "running"


def test_a_stopped_container_is_gone_and_its_last_words_are_kept(node, tenant, docker_client):
    devices = discover(node)
    enable(devices[0])
    app = declare(tenant, "inference")
    handle = deploy(tenant, app).engine_handle
    ask(tenant, "inference", "stop")
    steps.advance(app.pk)
    with pytest.raises(docker.errors.NotFound):
        docker_client.inspect_container(handle)
    assert devices[0].uuid in printed(tenant, app)


def test_a_card_disabled_since_is_replaced_at_the_redeploy(node, tenant, operator):
    devices = discover(node)
    enable(devices[0])
    app = declare(tenant, "inference")
    deploy(tenant, app)
    answer = operator.patch(f"/api/v1/admin/nodes/{node.pk}/gpus/{devices[0].pk}", {"enabled": False})
    assert answer.status_code == 200
    refusal = ask(tenant, "inference", "redeploy")
    assert (refusal.status_code, refusal.json()["code"]) == (409, "gpu_no_device")
    assert App.objects.get(pk=app.pk).deployments.get().state == "running"
    enable(devices[3])
    assert deploy(tenant, app).state == "running"
    assert CARD.findall(printed(tenant, app)) == [devices[3].uuid]
    assert list(app.deployments.values_list("state", flat=True)) == ["running", "superseded"]
    devices[0].refresh_from_db()
    assert devices[0].held == 0


def test_a_start_is_a_new_container_on_a_card_resolved_afresh(node, tenant):
    devices = discover(node)
    enable(devices[0])
    app = declare(tenant, "inference")
    first = deploy(tenant, app)
    ask(tenant, "inference", "stop")
    steps.advance(app.pk)
    GpuDevice.objects.filter(pk=devices[0].pk).update(enabled=False)
    enable(devices[1])
    assert ask(tenant, "inference", "start").status_code == 202
    steps.advance(app.pk)
    second = app.deployments.first()
    assert (second.state, second.number) == ("running", 2)
    assert second.engine_handle != first.engine_handle
    assert CARD.findall(printed(tenant, app)) == [devices[1].uuid]


def test_a_swapped_card_is_a_new_disabled_row_and_the_old_one_is_missing(node, tenant, fleet: Fleet):
    old = discover(node)[0]
    enable(old)
    fleet.remove(old.uuid)
    probe_node(node.pk)
    old.refresh_from_db()
    assert (old.presence, old.enabled) == ("missing", True)
    declare(tenant, "inference")
    assert ask(tenant, "inference", "deploy").json()["code"] == "gpu_no_device"


def test_a_card_that_vanished_after_the_inventory_fails_the_deploy_in_words(node, tenant, fleet: Fleet):
    devices = discover(node)
    enable(devices[0])
    fleet.remove(devices[0].uuid)
    deployment = deploy(tenant, declare(tenant, "inference"))
    assert (deployment.state, deployment.reason_code) == ("failed", "gpu_device_refused")
    assert devices[0].uuid not in deployment.reason
    assert "unknown device" in deployment.operator_detail
    assert not DeviceLease.objects.exists()


@pytest.mark.parametrize("image", [BUSYBOX, EVERY_CARD])
def test_without_a_gpu_nothing_is_seen_even_under_the_default_runtime_nvidia(
    docker_engine_nvidia_default: str, tenant, image
):
    make_node("gpu-2", engine=Node.Engine.DOCKER, address=docker_engine_nvidia_default)
    name, _, tag = image.partition(":")
    command = ["sh", "-c", "nvidia-smi -L || echo none; echo $NVIDIA_VISIBLE_DEVICES; exec sleep 1000"]
    app = declare(tenant, "sneaky", gpu=0, image=name, tag=tag, command=command)
    assert deploy(tenant, app).state == "running"
    assert CARD.findall(printed(tenant, app)) == []
    assert "void" in printed(tenant, app)
    ask(tenant, "sneaky", "stop")
    steps.advance(app.pk)


@pytest.mark.parametrize("key", ["NVIDIA_VISIBLE_DEVICES", "nvidia_visible_devices", "CUDA_VISIBLE_DEVICES", "Miabi_X"])
def test_reserved_variables_are_refused_in_any_case(tenant, key):
    body = {"name": "sneaky", "image": "busybox", "env": {key: "all"}}
    answer = tenant.post("/api/v1/workspaces/vision/apps", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "env_reserved")
    assert key in answer.json()["detail"]


def test_an_image_that_asks_for_every_card_sees_only_the_granted_one(node, tenant):
    devices = discover(node)
    enable(devices[1])
    name, _, tag = EVERY_CARD.partition(":")
    app = declare(tenant, "greedy", image=name, tag=tag)
    assert deploy(tenant, app).verification == "ok"
    assert CARD.findall(printed(tenant, app)) == [devices[1].uuid]


def test_a_node_without_the_toolkit_says_so_and_how_to_mend_it(docker_engine_without_toolkit: str, tenant):
    node = make_node("plain", engine=Node.Engine.DOCKER, address=docker_engine_without_toolkit)
    outcome = probe_node(node.pk)
    assert outcome.code == "toolkit_missing"
    node.refresh_from_db()
    assert (node.gpu_capable, node.reachable, node.inventory_stale) == (False, True, True)
    assert "nvidia-ctk runtime configure" in node.last_probe_detail
    declare(tenant, "inference", node="plain")
    assert ask(tenant, "inference", "deploy").json()["code"] == "gpu_node_not_capable"


def test_a_driver_mismatch_keeps_the_inventory_and_refuses_new_gpu_deploys(node, tenant, fleet: Fleet):
    devices = discover(node)
    enable(devices[0])
    fleet.fail("nvml error: driver/library version mismatch")
    assert probe_node(node.pk).code == "driver_mismatch"
    devices[0].refresh_from_db()
    assert (devices[0].presence, devices[0].enabled) == ("present", True)
    declare(tenant, "inference")
    assert ask(tenant, "inference", "deploy").json()["code"] == "gpu_node_not_capable"


def test_a_probe_that_hangs_is_ended_and_leaves_nothing(node, fleet: Fleet, settings, docker_client):
    settings.MIABI_PROBE_WAIT_SECONDS = 1
    discover(node)
    fleet.hang()
    assert probe_node(node.pk).code == "hung"
    assert docker_client.containers(all=True, filters={"label": LABEL_PREFIX + "role=probe"}) == []
    assert node.devices.filter(presence="present").count() == 4


def test_a_job_that_ends_is_finished_not_failed_and_frees_its_card(node, tenant):
    enable(discover(node)[0])
    app = declare(tenant, "job", command=["nvidia-smi", "-L"])
    deployment = deploy(tenant, app)
    if deployment.state == "running":
        reconcile.reconcile_node(node.pk)
        steps.advance(app.pk)
        deployment.refresh_from_db()
    assert (deployment.state, deployment.reason_code, deployment.exit_code) == ("stopped", "completed", 0)
    assert deployment.verification in ("ok", "unverified")
    assert not DeviceLease.objects.exists()


def test_a_program_that_fails_says_so_with_its_exit_code(node, tenant):
    app = declare(tenant, "broken", gpu=0, command=["sh", "-c", "echo oh no; exit 3"])
    deployment = deploy(tenant, app)
    if deployment.state == "running":
        reconcile.reconcile_node(node.pk)
        steps.advance(app.pk)
        deployment.refresh_from_db()
    assert (deployment.state, deployment.reason_code, deployment.exit_code) == ("failed", "container_exited", 3)
    assert "oh no" in deployment.log_tail


def test_an_unknown_image_fails_in_words_and_what_ran_goes_on(node, tenant):
    app = declare(tenant, "web", gpu=0)
    first = deploy(tenant, app)
    tenant.patch("/api/v1/workspaces/vision/apps/web", {"image": "registry.invalid/none", "tag": "1"})
    second = deploy(tenant, app)
    first.refresh_from_db()
    assert (second.state, second.reason_code) == ("failed", "image_unavailable")
    assert first.state == "running"


def test_a_container_killed_behind_our_back_is_found_and_its_card_freed(node, tenant, docker_client):
    enable(discover(node)[0])
    app = declare(tenant, "inference")
    deployment = deploy(tenant, app)
    docker_client.remove_container(deployment.engine_handle, force=True)
    report = reconcile.reconcile_node(node.pk)
    assert report.ended == 1
    steps.advance(app.pk)
    deployment.refresh_from_db()
    assert (deployment.state, deployment.reason_code) == ("failed", "container_gone")
    assert not DeviceLease.objects.exists()


def test_a_stray_container_of_ours_is_removed_and_a_foreign_one_is_not_touched(node, tenant, docker_client):
    app = declare(tenant, "web", gpu=0)
    deployment = deploy(tenant, app)
    foreign = docker_client.create_container(BUSYBOX, ["sleep", "1000"], labels={"team": "others"})["Id"]
    Deployment.objects.filter(pk=deployment.pk).update(state="stopped")
    try:
        report = reconcile.reconcile_node(node.pk)
        assert report.removed == 1
        assert docker_client.inspect_container(foreign)["Id"] == foreign
        with pytest.raises(docker.errors.NotFound):
            docker_client.inspect_container(deployment.engine_handle)
    finally:
        docker_client.remove_container(foreign, force=True)


def test_the_container_is_locked_down(node, tenant, docker_client):
    enable(discover(node)[0])
    app = declare(tenant, "inference", cpu="500m", memory="64Mi")
    host = docker_client.inspect_container(deploy(tenant, app).engine_handle)["HostConfig"]
    assert host["Privileged"] is False
    assert host["RestartPolicy"]["Name"] in ("no", "")
    assert "no-new-privileges" in " ".join(host["SecurityOpt"])
    assert host["CapDrop"] == ["ALL"]
    assert "NET_RAW" not in str(host["CapAdd"])
    assert (host["NanoCpus"], host["Memory"]) == (500_000_000, 64 * 1024 * 1024)
    assert host["PidsLimit"] > 0
    assert host["LogConfig"]["Config"]["max-size"]
    assert host["Binds"] in (None, [])


def test_deleting_an_app_removes_its_container_first_and_then_the_row(node, tenant, docker_client):
    app = declare(tenant, "web", gpu=0)
    handle = deploy(tenant, app).engine_handle
    assert tenant.delete("/api/v1/workspaces/vision/apps/web").status_code == 202
    steps.advance(app.pk)
    assert not App.objects.filter(pk=app.pk).exists()
    with pytest.raises(docker.errors.NotFound):
        docker_client.inspect_container(handle)
    assert tenant.get("/api/v1/workspaces/vision/apps/web").status_code == 404

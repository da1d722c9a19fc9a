"""The operators' API of cards: which are handed out, how they are shared, who holds them."""

from __future__ import annotations

import pytest
from celery import current_app
from rest_framework.test import APIClient

from apps_runtime import lifecycle
from gpus.models import GpuDevice, Node
from tests.factories import make_app, make_device, make_node, make_operator, make_workspace
from tests.parallel import in_parallel
from workspaces.audit import PLATFORM
from workspaces.models import AuditEvent


@pytest.fixture
def api(db) -> APIClient:
    client = APIClient()
    client.force_login(make_operator("root"))
    return client


@pytest.fixture
def gpu_node(db) -> Node:
    return make_node("gpu-1")


def address(device: GpuDevice) -> str:
    return f"/api/v1/admin/nodes/{device.node_id}/gpus/{device.pk}"


def test_a_device_is_enabled_and_shared_with_a_trace(api, gpu_node):
    device = make_device(gpu_node, enabled=False)
    answer = api.patch(address(device), {"enabled": True, "mode": "shared", "max_shares": 4})
    assert answer.status_code == 200
    assert [answer.json()[name] for name in ("enabled", "mode", "max_shares", "free_slots")] == [True, "shared", 4, 4]
    event = AuditEvent.objects.get(verb="device.set")
    assert event.before == {"enabled": False, "mode": "dedicated", "max_shares": 1}
    assert event.after == {"enabled": True, "mode": "shared", "max_shares": 4}


@pytest.mark.parametrize(
    "change", [{"mode": "shared"}, {"max_shares": 2}, {"mode": "shared", "max_shares": 2, "enabled": False}]
)
def test_how_a_held_device_is_shared_does_not_change(api, gpu_node, change):
    device = make_device(gpu_node, held=1)
    answer = api.patch(address(device), change)
    assert (answer.status_code, answer.json()["code"]) == (409, "device_held")
    assert "held by 1 container(s)" in answer.json()["detail"]
    assert answer.json()["facts"] == {"held": 1}
    device.refresh_from_db()
    assert (device.mode, device.max_shares, device.enabled) == ("dedicated", 1, True)


def test_a_held_device_may_be_disabled(api, gpu_node):
    device = make_device(gpu_node, held=1)
    assert api.patch(address(device), {"enabled": False}).json()["enabled"] is False


def test_a_card_that_another_node_offers_is_not_enabled(api, gpu_node):
    device = make_device(gpu_node)
    twin = make_device(make_node("gpu-2"), uuid=device.uuid, enabled=False)
    answer = api.patch(address(twin), {"enabled": True})
    assert (answer.status_code, answer.json()["code"]) == (409, "device_duplicate")

    api.patch(address(device), {"enabled": False})
    assert api.patch(address(twin), {"enabled": True}).status_code == 200


def test_a_card_that_is_split_into_instances_is_not_enabled(api, gpu_node):
    device = make_device(gpu_node, enabled=False, mig_enabled=True)
    answer = api.patch(address(device), {"enabled": True})
    assert (answer.status_code, answer.json()["code"]) == (409, "device_mig_parent")


@pytest.mark.parametrize(
    ("body", "attr"),
    [
        ({"max_shares": 0}, "max_shares"),
        ({"max_shares": 65}, "max_shares"),
        ({"max_shares": "many"}, "max_shares"),
        ({"mode": "exclusive"}, "mode"),
        ({"enabled": None}, "enabled"),
        ({"held": 0}, "held"),
        ({"model": "H100"}, "model"),
    ],
)
def test_only_what_an_operator_decides_is_written_and_only_within_bounds(api, gpu_node, body, attr):
    answer = api.patch(address(make_device(gpu_node)), body)
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, attr)


def test_a_device_is_found_on_its_own_node_only(api, gpu_node):
    device = make_device(gpu_node)
    other = make_node()
    assert api.get(f"/api/v1/admin/nodes/{other.pk}/gpus/{device.pk}").status_code == 404
    assert api.patch(f"/api/v1/admin/nodes/{other.pk}/gpus/{device.pk}", {"enabled": False}).status_code == 404
    assert api.get("/api/v1/admin/nodes/999999/gpus").status_code == 404


def test_operators_see_who_holds_a_device(api, gpu_node, monkeypatch):
    monkeypatch.setattr(current_app, "send_task", lambda *args, **options: None)
    device = make_device(gpu_node)
    lifecycle.request_deploy(make_app(make_workspace("vision"), "train", gpu=1), actor=PLATFORM)

    told = api.get(address(device)).json()

    assert told["held"] == 1
    holder = told["holders"][0]
    assert (holder["workspace"], holder["app"], holder["deployment"], holder["slot"]) == ("vision", "train", 1, 0)


def test_unknown_memory_is_told_as_unknown(api, gpu_node):
    told = api.get(address(make_device(gpu_node, memory_mib=None, memory_note="unified"))).json()
    assert (told["memory_mib"], told["memory_note"]) == (None, "unified")


def test_devices_are_filtered_searched_and_ordered(api, gpu_node):
    for index, model in enumerate(["NVIDIA L4", "NVIDIA A100"]):
        make_device(gpu_node, model=model, index=index, enabled=index == 0)

    def models(query: str) -> list[str]:
        rows = api.get(f"/api/v1/admin/nodes/{gpu_node.pk}/gpus?{query}").json()["results"]
        return [row["model"] for row in rows]

    assert models("") == ["NVIDIA L4", "NVIDIA A100"]
    assert models("enabled=false") == ["NVIDIA A100"]
    assert models("search=L4") == ["NVIDIA L4"]
    assert models("ordering=model") == ["NVIDIA A100", "NVIDIA L4"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_two_nodes_that_enable_the_same_card_at_once_one_does():
    first = make_device(make_node(), enabled=False)
    twins = [first, *(make_device(make_node(), uuid=first.uuid, enabled=False) for _ in range(3))]
    client_user = make_operator()

    def enable(device: GpuDevice) -> int:
        client = APIClient()
        client.force_authenticate(client_user)
        return client.patch(address(device), {"enabled": True}).status_code

    assert sorted(in_parallel(enable, twins)) == [200, 409, 409, 409]
    assert GpuDevice.objects.filter(enabled=True).count() == 1

"""The operators' API of nodes."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from gpus import claims
from gpus.models import Node
from tests.factories import make_app, make_device, make_node, make_operator, make_workspace
from workspaces.models import AuditEvent

NODES = "/api/v1/admin/nodes"
TLS = {"ca_cert": "-----CA-----", "client_cert": "-----CERT-----", "client_key": "-----KEY-----"}


@pytest.fixture
def api(db, sent) -> APIClient:
    client = APIClient()
    client.force_login(make_operator("root"))
    return client


def test_a_registered_node_is_probed_soon(api, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        answer = api.post(NODES, {"name": "gpu-1", "address": "tcp://10.0.0.5:2375"})
    assert answer.status_code == 201
    assert sent == [("gpus.tasks.probe_node", (answer.json()["id"],))]
    assert (answer.json()["schedulable"], answer.json()["gpu_capable"]) == (True, False)
    assert answer.json()["last_probe_ok"] is None


def test_credentials_are_stored_encrypted_and_never_given_back(api):
    made = api.post(NODES, {"name": "gpu-1", "address": "https://gpu-1.example.com:2376", "credentials": TLS})

    assert made.status_code == 201
    told = str([made.json(), api.get(NODES).json(), list(AuditEvent.objects.values())])
    assert "-----" not in told
    assert made.json()["has_credentials"] is True
    assert Node.objects.get().credentials == TLS
    raw = Node.objects.extra(select={"raw": "credentials"}).values_list("raw", flat=True).get()
    assert "-----" not in raw


def test_credentials_stay_until_they_are_changed_or_taken_away(api):
    node = api.post(NODES, {"name": "gpu-1", "address": "https://gpu-1:2376", "credentials": TLS}).json()
    address = f"{NODES}/{node['id']}"

    assert api.patch(address, {"labels": {"zone": "a"}}).json()["has_credentials"] is True
    assert api.patch(address, {"credentials": None}).json()["has_credentials"] is False


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gpu-1",
        "http://gpu-1:2375",
        "ssh://root@gpu-1",
        "npipe:////./pipe/docker",
        "file:///etc/passwd",
        "tcp://gpu-1",
        "tcp://gpu-1:0",
        "tcp://gpu-1:99999",
        "tcp://user:secret@gpu-1:2375",
        "tcp://gpu-1:2375/../v1.41",
        "https://gpu-1:2376?x=1",
        "tcp://gpu 1:2375",
        "tcp://gpu-1:2375\\@169.254.169.254",
        "unix://var/run/docker.sock",
        "unix:///var/run/../../etc/passwd",
        "unix:///proc/1/root/run/docker.sock",
        # The metadata services of clouds, in every spelling.
        "tcp://169.254.169.254:80",
        "https://169.254.169.254:443",
        "tcp://[fe80::1]:2375",
        "tcp://[::ffff:169.254.169.254]:80",
        "tcp://[::ffff:a9fe:a9fe]:80",
        "tcp://[64:ff9b::a9fe:a9fe]:80",
        "tcp://[2002:a9fe:a9fe::]:80",
        "tcp://[fd00:ec2::254]:80",
        "tcp://[fd00:0ec2:0::254]:80",
        "tcp://100.100.100.200:80",
        "tcp://[::ffff:100.100.100.200]:80",
        "tcp://2852039166:80",
        "tcp://0xa9fea9fe:80",
        "tcp://0251.0376.0251.0376:80",
        "tcp://169.254.43518:80",
        "tcp://metadata.google.internal:80",
        "tcp://metadata.google.internal.:80",
        "tcp://METADATA.google.internal:80",
        "tcp://0.0.0.0:2375",
        "tcp://[::]:2375",
        "tcp://224.0.0.1:2375",
        "tcp://255.255.255.255:2375",
    ],
)
def test_an_address_that_is_no_engines_is_refused(api, address):
    answer = api.post(NODES, {"name": "gpu-1", "address": address})
    assert answer.status_code == 400, answer.json()
    assert answer.json()["errors"][0]["attr"] == "address"
    assert not Node.objects.exists()


@pytest.mark.parametrize(
    "address",
    [
        "unix:///var/run/docker.sock",
        "tcp://10.0.0.5:2375",
        "tcp://127.0.0.1:2375",
        "https://gpu-1.example.com:2376",
        "tcp://[fd12:3456::5]:2375",
    ],
)
def test_an_engines_address_is_kept_as_it_is(api, address):
    assert api.post(NODES, {"name": "gpu-1", "address": address}).json()["address"] == address


def test_a_new_address_is_held_to_the_same_rules(api):
    node = make_node()
    answer = api.patch(f"{NODES}/{node.pk}", {"address": "tcp://169.254.169.254:80"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_address")


def test_a_nodes_name_is_taken_once(api):
    make_node("gpu-1")
    answer = api.post(NODES, {"name": "gpu-1", "address": "tcp://10.0.0.5:2375"})
    assert (answer.status_code, answer.json()["code"]) == (409, "node_name_taken")


@pytest.mark.parametrize(
    ("body", "attr"),
    [
        ({"adress": "tcp://10.0.0.5:2375"}, "adress"),
        ({"credentials": {"ca_cert": "x", "password": "y"}}, "credentials.password"),
        ({"credentials": {"client_key": "x"}}, "credentials.ca_cert"),
        ({"labels": ["a"]}, "labels"),
        ({"engine": "kubernetes"}, "engine"),
        ({"attach_mode": "magic"}, "attach_mode"),
    ],
)
def test_what_is_wrong_in_a_node_is_named_by_its_path(api, body, attr):
    answer = api.post(NODES, {"name": "gpu-1", "address": "tcp://10.0.0.5:2375"} | body)
    assert answer.status_code == 400
    assert attr in [error["attr"] for error in answer.json()["errors"]]


def test_what_a_probe_found_is_not_an_operators_to_write(api):
    node = make_node(gpu_capable=False)
    api.patch(f"{NODES}/{node.pk}", {"gpu_capable": True, "drain_state": "drained"})
    node.refresh_from_db()
    assert (node.gpu_capable, node.drain_state) == (False, "none")


def test_cordon_uncordon_and_drain(api):
    address = f"{NODES}/{make_node('gpu-1').pk}"
    assert api.post(f"{address}/cordon").json()["schedulable"] is False
    assert api.post(f"{address}/uncordon").json()["schedulable"] is True
    drained = api.post(f"{address}/drain").json()
    assert (drained["schedulable"], drained["drain_state"]) == (False, "drained")
    back = api.post(f"{address}/uncordon").json()
    assert (back["schedulable"], back["drain_state"]) == (True, "none")
    verbs = list(AuditEvent.objects.order_by("id").values_list("verb", flat=True))
    assert verbs == ["node.cordon", "node.uncordon", "node.drain", "node.uncordon"]


def test_a_node_with_pinned_apps_is_not_removed(api):
    node = make_node("gpu-1")
    make_app(make_workspace(), node=node)
    answer = api.delete(f"{NODES}/{node.pk}")
    assert (answer.status_code, answer.json()["code"]) == (409, "node_in_use")
    assert "gpu-1" in answer.json()["detail"]


def test_a_node_that_nothing_refers_to_goes_with_its_devices(api):
    node = make_node()
    make_device(node)
    assert api.delete(f"{NODES}/{node.pk}").status_code == 204
    assert not Node.objects.exists()


def test_a_rescan_is_asked_for_and_not_waited_for(api, sent, django_capture_on_commit_callbacks):
    node = make_node()
    with django_capture_on_commit_callbacks(execute=True):
        answer = api.post(f"{NODES}/{node.pk}/gpus/rescan")
    assert answer.status_code == 202
    assert answer.json()["probe_requested_at"] is not None
    assert sent == [("gpus.tasks.probe_node", (node.pk,))]


def test_a_rescan_that_is_waited_for_answers_with_what_was_found(api, node, sent):
    answer = api.post(f"{NODES}/{node.pk}/gpus/rescan?wait=true")
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["last_probe_ok"], answer.json()["devices_total"]) == (True, 4)
    assert sent == []


def test_a_rescan_that_is_waited_for_tells_a_probe_that_failed(api):
    node = make_node(address="unix:///nowhere/engine.sock")
    answer = api.post(f"{NODES}/{node.pk}/gpus/rescan?wait=true").json()
    assert (answer["last_probe_ok"], answer["last_probe_error"]) == (False, "unreachable")


def test_two_rescans_of_a_node_are_not_run_at_once(api):
    node = make_node()
    assert claims.take(Node, node.pk)
    answer = api.post(f"{NODES}/{node.pk}/gpus/rescan?wait=true")
    assert (answer.status_code, answer.json()["code"]) == (409, "probe_running")


@pytest.mark.parametrize("query", ["", "?wait=true"])
def test_nothing_is_probed_where_gpus_are_switched_off(api, settings, sent, query):
    settings.MIABI_GPU_ENABLED = False
    answer = api.post(f"{NODES}/{make_node().pk}/gpus/rescan{query}")
    assert (answer.status_code, answer.json()["code"]) == (403, "gpu_disabled")
    assert sent == []


def test_nodes_are_filtered_searched_ordered_and_counted(api):
    make_device(make_node("a", schedulable=False))
    node = make_node("b", last_probe_ok=False, last_probe_error="hung")
    make_device(node, enabled=False)
    make_device(node, held=1)

    def names(query: str) -> list[str]:
        return [row["name"] for row in api.get(f"{NODES}?{query}").json()["results"]]

    assert names("ordering=-name") == ["b", "a"]
    assert names("schedulable=false") == ["a"]
    assert names("last_probe_error=hung") == ["b"]
    assert names("search=b") == ["b"]
    rows = {row["name"]: row for row in api.get(NODES).json()["results"]}
    assert [rows["b"][f"devices_{what}"] for what in ("total", "enabled", "held")] == [2, 1, 1]
    assert rows["b"]["inventory_stale"] is True

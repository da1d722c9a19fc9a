"""The control API, with which another process drives a node."""

from __future__ import annotations

import docker
import pytest

from engines.virtual.node import VirtualNode
from tests.engines.virtual.conftest import eventually


@pytest.fixture
def control(client: docker.APIClient):
    """Call a path below ``/_virtual/``: status and body."""

    def call(method: str, path: str, body: object = None) -> tuple[int, dict]:
        answer = client.request(method, f"{client.base_url}/_virtual/{path}", json=body, timeout=5)
        return answer.status_code, answer.json() if answer.content else {}

    return call


def test_the_state_tells_who_holds_which_card(control, node: VirtualNode, run_with_cards):
    container = run_with_cards(node.cards[2].uuid, name="holder")
    status, state = control("GET", "state")
    assert status == 200
    (entry,) = state["containers"]
    assert (entry["id"], entry["name"], entry["devices"]) == (container, "holder", [node.cards[2].uuid])
    assert [card["uuid"] for card in state["cards"]] == [card.uuid for card in node.cards]
    assert state["toolkit"] is True


def test_faults_are_set_as_a_whole_and_taken_away(control, client: docker.APIClient, node: VirtualNode):
    fault = {"how": "error", "operation": "info", "status": 503, "message": "away"}
    assert control("PUT", "faults", {"faults": [fault], "unkillable": True, "inside_shows": ["all"]})[0] == 204
    assert control("GET", "state")[1]["faults"][0]["message"] == "away"
    with pytest.raises(docker.errors.APIError, match="away"):
        client.info()
    assert (node.faults.unkillable, node.faults.inside_shows) == (True, ["all"])
    assert control("PUT", "faults", {})[0] == 204
    assert client.info()["Name"] == "virtual-1"
    assert (node.faults.unkillable, node.faults.inside_shows) == (False, None)


def test_no_fault_touches_the_control_api(control):
    assert control("PUT", "faults", {"faults": [{"how": "hang"}]})[0] == 204
    assert control("GET", "state")[0] == 200
    assert control("PUT", "faults", {})[0] == 204


def test_settings_and_cards_are_changed_together(control, client: docker.APIClient, node: VirtualNode):
    cards = [
        {"model": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "mig": [{"profile": "3g.40gb", "count": 2}]},
        {"model": "Tesla T4", "memory_mib": 15360, "count": 2},
        {"model": "NVIDIA GB10", "memory_mib": None},
    ]
    assert control("PATCH", "node", {"kind": "rootless", "toolkit": False, "cards": cards})[0] == 204
    info = client.info()
    assert ("nvidia" in info["Runtimes"], "name=rootless" in info["SecurityOptions"]) == (False, True)
    assert [card.model for card in node.cards] == ["NVIDIA A100-SXM4-80GB", "Tesla T4", "Tesla T4", "NVIDIA GB10"]
    assert len({instance.uuid for instance in node.cards[0].mig}) == 2
    assert control("PATCH", "node", {"kind": "linux"})[0] == 204
    assert "name=rootless" not in client.info()["SecurityOptions"]


def test_a_restart_is_answered_on_its_own_connection(control, client: docker.APIClient, node: VirtualNode, run):
    container = run()
    assert control("POST", "restart", {"lost": [node.cards[0].uuid]})[0] == 204
    assert client.inspect_container(container)["State"]["ExitCode"] == 137
    assert len(node.cards) == 3


def test_a_containers_process_is_ended(control, client: docker.APIClient, run):
    container = run(host={"RestartPolicy": {"Name": "always"}})
    assert control("POST", f"containers/{container}/end", {"oom": True})[0] == 204
    eventually(lambda: client.inspect_container(container)["RestartCount"] == 1)
    other = run()
    assert control("POST", f"containers/{other}/end", {"exit_code": 9})[0] == 204
    assert client.inspect_container(other)["State"]["ExitCode"] == 9
    assert control("POST", f"containers/{other}/end")[0] == 409


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "faults", {"faults": [{"how": "nonsense"}]}),
        ("PUT", "faults", {"faults": [{"how": "hang", "nonsense": 1}]}),
        ("PUT", "faults", {"faults": [{}]}),
        ("PUT", "faults", {"faults": ["hang"]}),
        ("PUT", "faults", {"faults": [{"how": "latency", "seconds": "long"}]}),
        ("PUT", "faults", {"faults": [{"how": "error", "status": "500"}]}),
        ("PUT", "faults", {"faults": 5}),
        ("PUT", "faults", {"unkillable": "yes"}),
        ("PUT", "faults", {"nonsense": True}),
        ("PUT", "faults", {"unkillable_after_s": "x"}),
        ("PUT", "faults", []),
        ("PATCH", "node", {"nonsense": 1}),
        ("PATCH", "node", {"toolkit": "yes"}),
        ("PATCH", "node", {"smi_exit_code": True}),
        ("PATCH", "node", {"kind": "mainframe"}),
        ("PATCH", "node", {"kind": []}),
        ("PATCH", "node", {"cards": [{"model": 5}]}),
        ("PATCH", "node", {"cards": [{"nonsense": 5}]}),
        ("PATCH", "node", {"cards": [{"count": 0}]}),
        ("PATCH", "node", {"cards": [{"uuid": "GPU-1", "count": 2}]}),
        ("PATCH", "node", {"cards": [{"uuid": "GPU-1"}, {"uuid": "GPU-1"}]}),
        ("PATCH", "node", {"cards": [{"mig": ["1g"]}]}),
        ("PATCH", "node", {"cards": "4"}),
        ("PATCH", "node", {"api_version": "new"}),
        ("PATCH", "node", {"security_options": [1]}),
        ("PATCH", "node", {"image_env": {"busybox:1": "x"}}),
        ("POST", "restart", {"down_s": "x"}),
        ("POST", "restart", {"nonsense": 1}),
    ],
)
def test_wrong_words_are_refused_and_change_nothing(control, method: str, path: str, body: object):
    before = control("GET", "state")
    status, answer = control(method, path, body)
    assert status == 400
    assert answer["message"]
    assert control("GET", "state") == before

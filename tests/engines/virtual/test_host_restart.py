"""A host that reboots, and what comes back; and hosts of other kinds."""

from __future__ import annotations

from datetime import UTC, datetime

import docker
import pytest
import requests
from docker.errors import APIError

from engines.contract import EngineAddress
from engines.docker import DockerEngine
from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving
from engines.virtual.settings import KINDS, apply_settings
from tests.engines.virtual.conftest import eventually


def test_containers_end_and_come_back_by_their_policy(
    client: docker.APIClient, node: VirtualNode, serving: Serving, run
):
    policies = ("no", "always", "unless-stopped")
    containers = {name: run(host={"RestartPolicy": {"Name": name}}) for name in policies}
    stopped = run(host={"RestartPolicy": {"Name": "unless-stopped"}})
    client.stop(stopped)

    serving.call(node.restart)

    def state(container: str) -> dict:
        return client.inspect_container(container)["State"]

    eventually(lambda: state(containers["always"])["Running"] and state(containers["unless-stopped"])["Running"])
    ended = state(containers["no"])
    assert (ended["Running"], ended["Status"], ended["ExitCode"]) == (False, "exited", 137)
    assert state(stopped)["Running"] is False


def test_nobody_is_answered_while_the_host_is_down(client: docker.APIClient, node: VirtualNode, serving: Serving):
    serving.call(lambda: node.restart(down_s=0.4))
    with pytest.raises(requests.ConnectionError):
        client.info()

    def back() -> bool:
        try:
            return bool(client.info())
        except requests.ConnectionError:
            return False

    eventually(back)


def test_open_connections_break(client: docker.APIClient, node: VirtualNode, serving: Serving, run):
    container = run("sh", "-c", "echo ready; sleep infinity")
    path = f"{client.base_url}/containers/{container}/logs?stdout=1&follow=1"
    parts = client.request("GET", path, stream=True, timeout=5).iter_content(14)
    assert next(parts)[8:] == b"ready\n"
    serving.call(node.restart)
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        next(parts)


def test_cards_may_be_gone_afterwards(client: docker.APIClient, node: VirtualNode, serving: Serving, run_with_cards):
    lost = node.cards[0].uuid
    container = run_with_cards(lost)
    serving.call(lambda: node.restart(lost=[lost]))
    assert len(node.cards) == 3
    with pytest.raises(APIError, match="unknown device"):
        client.start(container)


def test_execs_are_forgotten(client: docker.APIClient, node: VirtualNode, serving: Serving, run):
    made = client.exec_create(run(), ["true"])["Id"]
    serving.call(node.restart)
    with pytest.raises(APIError, match="No such exec instance"):
        client.exec_inspect(made)


def test_a_hosts_clock_can_be_wrong(client: docker.APIClient, node: VirtualNode, create):
    node.clock_skew_s = -7200
    hours = (datetime.now(UTC) - datetime.fromisoformat(client.info()["SystemTime"])).total_seconds() / 3600
    assert hours == pytest.approx(2, abs=0.01)
    assert client.inspect_container(create())["Created"] < datetime.now(UTC).isoformat()


@pytest.mark.parametrize("kind", KINDS)
def test_hosts_of_every_kind_say_what_they_are(kind: str, serving: Serving, node: VirtualNode):
    apply_settings(node, {"kind": kind})
    engine = DockerEngine(EngineAddress(serving.urls[0], timeout_s=5))
    facts = engine.facts()
    engine.close()
    assert ("name=rootless" in facts.security_options) is (kind == "rootless")
    assert ("microsoft" in facts.kernel_version) is (kind in ("wsl2", "docker-desktop"))
    assert (facts.operating_system == "Docker Desktop") is (kind == "docker-desktop")
    assert ("/snap/" in facts.data_root) is (kind == "snap")


def test_an_old_engine_is_spoken_to_in_its_own_version(serving: Serving, node: VirtualNode):
    node.api_version, node.min_api_version = "1.41", "1.12"
    client = docker.APIClient(serving.urls[0], version="auto", timeout=5)
    assert client.api_version == "1.41"
    client.close()


def test_cdi_devices_are_told_from_the_version_that_can(serving: Serving, node: VirtualNode):
    node.cdi, node.api_version = True, "1.50"
    engine = DockerEngine(EngineAddress(serving.urls[0], timeout_s=5))
    assert f"nvidia.com/gpu={node.cards[0].uuid}" in engine.facts().cdi_devices
    node.api_version = "1.47"
    assert engine.facts().cdi_devices == ()
    engine.close()

"""``python -m engines.virtual`` as a process: what it serves, keeps, refuses and costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from engines.virtual.__main__ import read_fleet
from engines.virtual.cards import make_cards
from engines.virtual.settings import KINDS
from tests.engines.virtual.conftest import eventually

ROOT = Path(__file__).parents[3]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command and return when it says that it serves."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "engines.virtual", *map(str, arguments)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        process.said = process.stdout.readline()  # type: ignore[attr-defined]
        assert "virtual node" in process.said  # type: ignore[attr-defined]
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str], how: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(how)
    return process.wait(10)


def connect(path: Path) -> docker.APIClient:
    return docker.APIClient(f"unix://{path}", version="auto", timeout=5)


def refused(*arguments: object) -> str:
    command = [sys.executable, "-m", "engines.virtual", *map(str, arguments)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert process.returncode != 0
    assert "Traceback" not in process.stderr
    return process.stderr


def resident_mib(process: subprocess.Popen[str]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_one_node_is_served_and_leaves_no_socket_behind(start: Start, tmp_path: Path):
    path = tmp_path / "node.sock"
    process = start(
        "--listen", f"unix://{path}", "--cards", 2, "--name", "v1", "--model", "Tesla T4", "--memory", 15360
    )
    client = connect(path)
    assert client.info()["Name"] == "v1"
    client.pull("busybox", tag="1")
    request = {"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "utility"]]}
    config = {"Image": "busybox:1", "Cmd": ["nvidia-smi", "-L"], "HostConfig": {"DeviceRequests": [request]}}
    container = client.create_container_from_config(config)["Id"]
    client.start(container)
    client.wait(container)
    lines = client.logs(container).decode().splitlines()
    cards = make_cards("v1", 2)
    assert lines == [f"GPU {index}: Tesla T4 (UUID: {card.uuid})" for index, card in enumerate(cards)]
    client.close()
    assert path.stat().st_mode & 0o077 == 0
    assert stop(process) == 0
    assert not path.exists()


def test_a_free_tcp_port_is_told(start: Start):
    process = start("--listen", "tcp://127.0.0.1:0")
    client = docker.APIClient(process.said.split()[-1], version="auto", timeout=5)  # type: ignore[attr-defined]
    assert client.info()["Name"] == "virtual"
    client.close()
    assert stop(process, signal.SIGINT) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_containers_outlive_the_process(start: Start, tmp_path: Path, how: signal.Signals):
    arguments = ("--listen", f"unix://{tmp_path}/node.sock", "--state", tmp_path / "state" / "node.json")
    first = start(*arguments)
    client = connect(tmp_path / "node.sock")
    client.pull("busybox", tag="1")
    client.create_volume("data")
    request = {
        "Driver": "nvidia",
        "DeviceIDs": [make_cards("virtual", 1)[0].uuid],
        "Capabilities": [["gpu", "utility"]],
    }
    host = {"DeviceRequests": [request], "Mounts": [{"Type": "volume", "Source": "data", "Target": "/data"}]}
    config = {"Image": "busybox:1", "Cmd": ["sleep", "infinity"], "Labels": {"a": "b"}, "HostConfig": host}
    runs = client.create_container_from_config(config, "runs")["Id"]
    client.start(runs)
    ended = client.create_container_from_config(
        {"Image": "busybox:1", "Cmd": ["sh", "-c", "echo bye; exit 3"]}, "ended"
    )
    client.start(ended)
    client.wait(ended)
    before = client.inspect_container(runs)
    client.close()
    stop(first, how)

    start(*arguments)
    client = connect(tmp_path / "node.sock")
    after = client.inspect_container(runs)
    assert after["State"]["Running"] is True
    assert after["State"]["StartedAt"] == before["State"]["StartedAt"]
    assert (after["Config"], after["HostConfig"], after["Mounts"]) == (
        before["Config"],
        before["HostConfig"],
        before["Mounts"],
    )
    assert client.exec_start(client.exec_create(runs, ["nvidia-smi", "-L"])["Id"]).count(b"GPU-") == 1
    assert client.inspect_container("ended")["State"]["ExitCode"] == 3
    assert client.logs("ended") == b"bye\n"
    assert [each["Name"] for each in client.volumes()["Volumes"]] == ["data"]
    client.close()


def test_a_container_whose_card_is_gone_at_the_next_start_has_ended(start: Start, tmp_path: Path):
    socket, state = tmp_path / "node.sock", tmp_path / "node.json"
    first = start("--listen", f"unix://{socket}", "--state", state, "--cards", 2)
    client = connect(socket)
    client.pull("busybox", tag="1")
    request = {"Driver": "nvidia", "DeviceIDs": [make_cards("virtual", 2)[1].uuid], "Capabilities": [["gpu"]]}
    config = {"Image": "busybox:1", "Cmd": ["sleep", "infinity"], "HostConfig": {"DeviceRequests": [request]}}
    client.start(client.create_container_from_config(config, "app"))
    client.close()
    stop(first)

    start("--listen", f"unix://{socket}", "--state", state, "--cards", 1)
    client = connect(socket)
    record = client.inspect_container("app")["State"]
    assert (record["Running"], "unknown device" in record["Error"]) == (False, True)
    client.close()


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"version": 1}', '{"version": 2}'])
def test_a_state_that_cannot_be_read_is_put_aside_and_told(start: Start, tmp_path: Path, text: str):
    state = tmp_path / "node.json"
    state.write_text(text)
    process = start("--listen", f"unix://{tmp_path}/node.sock", "--state", state)
    stop(process)
    assert (tmp_path / "node.unreadable").read_text() == text
    assert process.stderr is not None
    assert "cannot be read" in process.stderr.read()


def test_a_thousand_nodes_cost_less_than_100_kib_each(start: Start, tmp_path: Path):
    one = start("--listen", f"unix://{tmp_path}/node.sock", "--cards", 10)
    alone = resident_mib(one)
    assert alone < 40
    fleet = start("--socket-dir", tmp_path / "fleet", "--nodes", 1000, "--cards", 10)
    assert (resident_mib(fleet) - alone) * 1024 / 1000 < 100
    sockets = sorted((tmp_path / "fleet").iterdir())
    assert len(sockets) == 1000
    client = connect(sockets[-1])
    assert client.info()["Name"] == "virtual-999"
    client.close()
    assert stop(fleet) == 0
    assert list((tmp_path / "fleet").iterdir()) == []


def test_a_fleet_file_describes_every_node(start: Start, tmp_path: Path):
    document = {
        "nodes": [
            {"name": "big", "cards": [{"model": "NVIDIA H200", "memory_mib": 143771, "count": 8}]},
            {"name": "old", "toolkit": False, "api_version": "1.41", "cards": []},
            {"name": "desk", "kind": "docker-desktop", "cards": [{"model": "NVIDIA GB10", "memory_mib": None}]},
        ]
    }
    (tmp_path / "fleet.json").write_text(json.dumps(document))
    start("--fleet", tmp_path / "fleet.json", "--socket-dir", tmp_path / "fleet")
    for name, version in (("big", "1.47"), ("old", "1.41"), ("desk", "1.47")):
        client = connect(tmp_path / "fleet" / f"{name}.sock")
        assert (client.info()["Name"], client.api_version) == (name, version)
        client.close()
    big, old, desk = read_fleet(json.dumps(document))
    assert (len(big.cards), len({card.uuid for card in big.cards})) == (8, 8)
    assert (old.toolkit, desk.operating_system) == (False, KINDS["docker-desktop"]["operating_system"])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "with one node at least"),
        ({"nodes": []}, "with one node at least"),
        ({"nodes": [{}]}, "nodes[0] has no name"),
        ({"nodes": [{"name": "a", "nonsense": 1}]}, "nodes[0] (a): the node has no 'nonsense'"),
        ({"nodes": [{"name": "a", "cards": [{"model": 1}]}]}, "cards[0].model has the wrong type"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "two nodes have the same name"),
    ],
)
def test_a_wrong_fleet_file_says_where(document: dict, words: str):
    with pytest.raises(ValueError) as caught:
        read_fleet(json.dumps(document))
    assert words in str(caught.value)


def test_wrong_arguments_are_refused_in_words(tmp_path: Path):
    assert "say either --listen" in refused()
    assert "neither unix" in refused("--listen", "http://nowhere")
    assert "--state is for one node" in refused("--socket-dir", tmp_path, "--nodes", 2, "--state", tmp_path / "x")
    assert "No such file" in refused("--listen", f"unix://{tmp_path}/a", "--fleet", tmp_path / "none.json")
    assert "no card" in refused("--listen", f"unix://{tmp_path}/a", "--cards", -1)


def test_an_address_in_use_is_not_taken_over(start: Start, tmp_path: Path):
    path = tmp_path / "node.sock"
    start("--listen", f"unix://{path}", "--name", "first")
    assert "listens at" in refused("--listen", f"unix://{path}")
    client = connect(path)
    assert client.info()["Name"] == "first"
    client.close()
    (tmp_path / "file").write_text("mine")
    assert "is no socket" in refused("--listen", f"unix://{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_socket_left_by_a_killed_process_is_replaced(start: Start, tmp_path: Path):
    path = tmp_path / "node.sock"
    stop(start("--listen", f"unix://{path}"), signal.SIGKILL)
    assert path.exists()
    start("--listen", f"unix://{path}", "--name", "second")
    client = connect(path)
    eventually(lambda: client.info()["Name"] == "second")
    client.close()

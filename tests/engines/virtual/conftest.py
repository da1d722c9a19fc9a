"""What the tests of virtual nodes start from: one node, served, and docker-py's own client on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving, serve

IMAGE = "busybox:1"


@pytest.fixture
def node() -> VirtualNode:
    """Four cards, and the image that the tests run is there."""
    return VirtualNode.with_cards("virtual-1", 4, pull_seconds=0.0, images={IMAGE})


@pytest.fixture
def serving(node: VirtualNode, tmp_path: Path) -> Iterator[Serving]:
    with serve([node], tmp_path) as running:
        yield running


@pytest.fixture
def client(serving: Serving) -> Iterator[docker.APIClient]:
    made = docker.APIClient(serving.urls[0], version="auto", timeout=5)
    yield made
    made.close()


@pytest.fixture
def create(client: docker.APIClient) -> Callable[..., str]:
    """Create a container of ``command``; ``host`` is its HostConfig."""

    def make(*command: str, name: str | None = None, host: dict | None = None, **fields) -> str:
        config = {"Image": IMAGE, "Cmd": list(command) or ["sleep", "infinity"], "HostConfig": host or {}, **fields}
        return client.create_container_from_config(config, name)["Id"]

    return make


@pytest.fixture
def run(client: docker.APIClient, create: Callable[..., str]) -> Callable[..., str]:
    """Create and start a container."""

    def start(*command: str, **fields) -> str:
        container = create(*command, **fields)
        client.start(container)
        return container

    return start


@pytest.fixture
def run_with_cards(run: Callable[..., str]) -> Callable[..., str]:
    """Run a container with cards by UUID."""

    def start(*uuids: str, command: tuple[str, ...] = (), capabilities: tuple[str, ...] = ("gpu", "utility"), **fields):
        request = {"Driver": "nvidia", "DeviceIDs": list(uuids), "Capabilities": [list(capabilities)]}
        return run(*command, host={"DeviceRequests": [request]}, **fields)

    return start


@pytest.fixture
def inside(client: docker.APIClient) -> Callable[..., tuple[int, str]]:
    """Run a command in a container: its exit code and output."""

    def execute(container: str, *command: str) -> tuple[int, str]:
        made = client.exec_create(container, list(command))["Id"]
        output = client.exec_start(made).decode()
        return client.exec_inspect(made)["ExitCode"], output

    return execute


def eventually(holds: Callable[[], bool], *, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)

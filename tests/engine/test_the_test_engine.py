"""The private engine is a fair judge: plain docker-py sees on it what real cards would show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.errors import APIError
from docker.types import DeviceRequest

from tests.services.fleet import Fleet, MigInstance
from tests.services.images import BUSYBOX, EVERY_CARD, PROBE

CARD = re.compile(r"^GPU \d+: .+ \(UUID: (\S+)\)$", re.MULTILINE)
UNKNOWN = "GPU-00000000-dead-beef-dead-000000000000"

Run = Callable[..., str]


def runner(url: str) -> Iterator[Run]:
    """Runs a container to its end, and answers with what it printed."""
    client = docker.APIClient(url, version="auto", timeout=30)
    made: list[str] = []

    def run(*command: str, image: str = BUSYBOX, cards: list[str] | None = None, **host: Any) -> str:
        if cards:
            host["device_requests"] = [DeviceRequest(device_ids=cards, capabilities=[["gpu", "utility"]])]
        container = client.create_container(image, list(command), host_config=client.create_host_config(**host))
        made.append(container["Id"])
        client.start(container)
        client.wait(container)
        return client.logs(container).decode()

    yield run
    for container in made:
        client.remove_container(container, force=True)
    client.close()


@pytest.fixture
def run(docker_engine: str) -> Iterator[Run]:
    yield from runner(docker_engine)


@pytest.fixture
def run_on_nvidia_default(docker_engine_nvidia_default: str) -> Iterator[Run]:
    yield from runner(docker_engine_nvidia_default)


@pytest.fixture
def run_without_toolkit(docker_engine_without_toolkit: str) -> Iterator[Run]:
    yield from runner(docker_engine_without_toolkit)


def test_two_of_four_cards_named_are_the_two_seen(run: Run, fleet: Fleet) -> None:
    asked = [fleet.uuids[1], fleet.uuids[3]]

    assert CARD.findall(run("nvidia-smi", "-L", cards=asked)) == asked


def test_a_request_for_all_shows_all(run: Run, fleet: Fleet) -> None:
    every = [DeviceRequest(count=-1, capabilities=[["gpu"]])]

    assert CARD.findall(run("nvidia-smi", "-L", device_requests=every)) == fleet.uuids


def test_the_xml_describes_the_card_asked_for(run: Run, fleet: Fleet) -> None:
    text = run("nvidia-smi", "-q", "-x", cards=[fleet.uuids[2]], image=PROBE)

    assert re.findall(r"<uuid>(.+)</uuid>", text) == [fleet.uuids[2]]
    assert "<product_name>NVIDIA L4</product_name>" in text
    assert "<total>23034 MiB</total>" in text


def test_an_unknown_card_is_refused_at_start(run: Run) -> None:
    with pytest.raises(APIError, match=f"device error: {UNKNOWN}: unknown device"):
        run("nvidia-smi", "-L", cards=[UNKNOWN])


def test_without_a_request_there_is_no_nvidia_smi(run: Run) -> None:
    assert run("sh", "-c", "command -v nvidia-smi || echo none").strip() == "none"


def test_without_a_request_an_image_that_asks_for_all_gets_nothing_from_runc(run: Run) -> None:
    assert run("sh", "-c", "command -v nvidia-smi || echo none", image=EVERY_CARD).strip() == "none"


def test_as_default_runtime_nvidia_gives_every_card_to_whoever_asks(run_on_nvidia_default: Run, fleet: Fleet) -> None:
    assert CARD.findall(run_on_nvidia_default("nvidia-smi", "-L", image=EVERY_CARD)) == fleet.uuids


def test_as_runtime_by_name_nvidia_gives_every_card_to_whoever_asks(run: Run, fleet: Fleet) -> None:
    assert CARD.findall(run("nvidia-smi", "-L", image=EVERY_CARD, runtime="nvidia")) == fleet.uuids


def test_an_engine_without_toolkit_has_no_driver(run_without_toolkit: Run, fleet: Fleet) -> None:
    with pytest.raises(APIError, match="could not select device driver"):
        run_without_toolkit("true", cards=fleet.uuids[:1])


def test_a_card_that_fell_off_the_bus_is_unknown_from_then_on(run: Run, fleet: Fleet) -> None:
    gone = fleet.uuids[0]
    fleet.remove(gone)

    with pytest.raises(APIError, match=f"{gone}: unknown device"):
        run("true", cards=[gone])


def test_a_mig_instance_is_seen_alone_under_its_card(run: Run, fleet: Fleet) -> None:
    instances = [MigInstance(f"MIG-00000000-0000-4000-8000-00000000000{n}", gpu_instance=n) for n in (7, 8)]
    fleet.turn_mig_on(fleet.uuids[3], instances)

    text = run("nvidia-smi", "-L", cards=[instances[1].uuid])

    assert CARD.findall(text) == [fleet.uuids[3]]
    assert re.findall(r"MIG-[0-9a-f-]+", text) == [instances[1].uuid]


def test_a_driver_that_does_not_answer_fails_the_start(run: Run, fleet: Fleet) -> None:
    fleet.fail("nvml error: driver/library version mismatch")

    with pytest.raises(APIError, match="nvml error: driver/library version mismatch"):
        run("true", cards=fleet.uuids[:1])


def test_with_no_cards_left_nvidia_smi_says_so(run: Run, fleet: Fleet) -> None:
    fleet.set([])
    every = [DeviceRequest(count=-1, capabilities=[["gpu"]])]

    assert run("nvidia-smi", "-L", device_requests=every).strip() == "No devices were found"


def test_a_container_has_a_network_of_its_own(run: Run) -> None:
    assert "eth0" in run("ip", "address")

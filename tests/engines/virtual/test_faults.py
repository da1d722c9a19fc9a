"""Each fault does what it is called, as often as it was asked to, and to nothing else."""

from __future__ import annotations

import threading
import time

import docker
import pytest
import requests
from docker.errors import APIError

from engines.virtual.faults import Fault, Faults
from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving
from tests.engines.virtual.conftest import eventually

LOST = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)


@pytest.fixture
def impatient(serving: Serving):
    client = docker.APIClient(serving.urls[0], version="1.47", timeout=1)
    yield client
    client.close()


def test_an_error_comes_with_its_status_and_words_a_number_of_times(
    client: docker.APIClient, node: VirtualNode, create
):
    node.faults.add(Fault("error", "create", times=2, status=503, message="too busy"))
    for _ in range(2):
        with pytest.raises(APIError, match="too busy") as caught:
            create()
        assert caught.value.status_code == 503
    create()
    assert len(node.containers) == 1


def test_a_fault_can_let_the_first_calls_through(client: docker.APIClient, node: VirtualNode, create):
    node.faults.add(Fault("error", "create", times=1, skip=2))
    create()
    create()
    with pytest.raises(APIError):
        create()
    create()


def test_other_operations_are_left_alone(client: docker.APIClient, node: VirtualNode):
    node.faults.add(Fault("error", "create"))
    assert client.info()["Name"] == "virtual-1"
    node.faults.add(Fault("error", "any"))
    with pytest.raises(APIError):
        client.info()


def test_a_connection_dropped_before_acting_leaves_nothing(node: VirtualNode, create):
    node.faults.add(Fault("drop", "create", times=1))
    with pytest.raises(LOST):
        create()
    assert node.containers == {}


def test_an_answer_that_is_lost_leaves_a_container(node: VirtualNode, create, client: docker.APIClient):
    node.faults.add(Fault("act_then_drop", "create", times=1))
    with pytest.raises(LOST):
        create(name="made")
    assert client.inspect_container("made")["State"]["Status"] == "created"


def test_an_answer_that_never_comes_was_acted_on_too(node: VirtualNode, impatient: docker.APIClient, run):
    container = run()
    node.faults.add(Fault("act_then_hang", "stop", times=1))
    with pytest.raises(requests.Timeout):
        impatient.stop(container, timeout=0)
    assert impatient.inspect_container(container)["State"]["Status"] == "exited"


def test_a_hang_never_acts_and_other_calls_go_on(node: VirtualNode, impatient: docker.APIClient, create):
    container = create()
    node.faults.add(Fault("hang", "start", times=1))
    ends: list[Exception] = []

    def start() -> None:
        try:
            impatient.start(container)
        except requests.Timeout as timeout:
            ends.append(timeout)

    waiting = threading.Thread(target=start)
    waiting.start()
    begun = time.monotonic()
    assert impatient.info()["ContainersRunning"] == 0
    assert time.monotonic() - begun < 1
    waiting.join()
    assert len(ends) == 1
    assert impatient.inspect_container(container)["State"]["Status"] == "created"


def test_a_hung_call_ends_with_its_client(node: VirtualNode, impatient: docker.APIClient):
    impatient.ping()
    idle = len(node.connections)
    node.faults.add(Fault("hang", "info", times=1))
    with pytest.raises(requests.Timeout):
        impatient.info()
    eventually(lambda: len(node.connections) <= idle)


def test_a_slow_engine_acts_although_the_client_has_given_up(node: VirtualNode, impatient: docker.APIClient):
    node.faults.add(Fault("latency", "create", seconds=1.3, times=1))
    with pytest.raises(requests.Timeout):
        impatient.create_container_from_config({"Image": "busybox:1"}, "late")
    assert node.containers == {}
    eventually(lambda: [each.name for each in node.containers.values()] == ["late"])


def test_delays_add_up_and_vary_within_their_bounds():
    faults = Faults()
    faults.add(Fault("latency", "any", seconds=1.0))
    faults.add(Fault("latency", "create", seconds=0.5, jitter=0.25))
    faults.add(Fault("error", "create"))
    fates = [faults.fate_of("create") for _ in range(50)]
    assert all(1.5 <= fate.delay_s <= 1.75 for fate in fates)
    assert len({fate.delay_s for fate in fates}) == 50
    assert {fate.fault.how for fate in fates if fate.fault} == {"error"}
    assert faults.fate_of("info").delay_s == 1.0
    assert faults.fate_of("info").fault is None


@pytest.mark.parametrize("words", ["manifest unknown: manifest unknown", "toomanyrequests: rate limit reached"])
def test_a_pull_can_fail_at_once_or_within_its_stream(client: docker.APIClient, node: VirtualNode, words: str):
    node.faults.add(Fault("error", "pull", times=1, status=500, message=words))
    with pytest.raises(APIError, match=words[:15]):
        client.pull("registry.example.com/app", tag="1")
    node.faults.add(Fault("error", "pull", times=1, message=words, in_stream=True))
    lines = list(client.pull("registry.example.com/app", tag="1", stream=True, decode=True))
    assert lines[-1] == {"errorDetail": {"message": words}, "error": words}
    assert "registry.example.com/app:1" not in node.images


def test_a_stream_can_be_cut(client: docker.APIClient, node: VirtualNode, run):
    container = run("sh", "-c", "echo one; echo two")
    client.wait(container)
    node.faults.add(Fault("cut", "logs", times=1, after_bytes=12))
    answer = client.request("GET", f"{client.base_url}/containers/{container}/logs?stdout=1", stream=True, timeout=5)
    parts = answer.iter_content(12)
    assert next(parts)[8:] == b"one\n"
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        next(parts)


def test_a_container_can_die_some_time_after_its_start(client: docker.APIClient, node: VirtualNode, run):
    node.faults.add(Fault("dies", "start", times=1, seconds=0.1, exit_code=42))
    container = run()
    assert client.inspect_container(container)["State"]["Running"] is True
    assert client.wait(container)["StatusCode"] == 42
    survivor = run()
    time.sleep(0.2)
    assert client.inspect_container(survivor)["State"]["Running"] is True


def test_a_container_can_run_out_of_memory(client: docker.APIClient, node: VirtualNode, run):
    node.faults.add(Fault("dies", "start", times=1, oom=True))
    container = run()
    assert client.wait(container)["StatusCode"] == 137
    assert client.inspect_container(container)["State"]["OOMKilled"] is True


def test_a_container_that_cannot_be_killed_stays(client: docker.APIClient, node: VirtualNode, run):
    container = run()
    node.faults.unkillable = True
    for call in (client.stop, client.kill, lambda each: client.remove_container(each, force=True)):
        with pytest.raises(APIError, match="did not receive an exit event") as caught:
            call(container)
        assert caught.value.status_code == 500
    assert client.inspect_container(container)["State"]["Running"] is True
    node.faults.clear()
    client.remove_container(container, force=True)


def test_the_engine_can_take_its_time_to_say_so(node: VirtualNode, impatient: docker.APIClient, run):
    container = run()
    node.faults.unkillable, node.faults.unkillable_after_s = True, 5.0
    with pytest.raises(requests.Timeout):
        impatient.remove_container(container, force=True)


def test_a_fault_holds_for_a_block_and_no_longer(client: docker.APIClient, node: VirtualNode):
    with node.faults.during(Fault("error", "info")), pytest.raises(APIError):
        client.info()
    assert client.info()["Name"] == "virtual-1"


@pytest.mark.parametrize(
    "fault",
    [
        Fault("nonsense"),  # type: ignore[arg-type]
        Fault("hang", "nonsense"),
        Fault("dies", "stop"),
        Fault("error", "create", in_stream=True),
        Fault("cut", "create"),
        Fault("error", "create", status=200),
    ],
    ids=str,
)
def test_a_fault_that_can_never_happen_is_refused(fault: Fault):
    with pytest.raises(ValueError):
        Faults().add(fault)

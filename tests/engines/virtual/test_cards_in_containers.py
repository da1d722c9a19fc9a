"""Which cards a container sees: by device request, by variable, by CDI, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import docker
import pytest
from docker.errors import APIError

from engines.virtual.cards import MigInstance
from engines.virtual.node import VirtualNode
from tests.engines.virtual.conftest import IMAGE

INSTANCES = tuple(MigInstance(f"MIG-00000000-0000-4000-8000-00000000000{number}") for number in range(3))


def listed(output: str) -> list[str]:
    return re.findall(r"UUID: (\S+)\)", output)


def start_refused(call) -> tuple[int, str]:
    with pytest.raises(APIError) as caught:
        call()
    return caught.value.status_code or 0, caught.value.explanation or ""


@pytest.fixture
def uuids(node: VirtualNode) -> list[str]:
    return [card.uuid for card in node.cards]


@pytest.fixture
def seen(inside):
    """The UUIDs that ``nvidia-smi -L`` lists in a container."""

    def look(container: str) -> list[str]:
        code, output = inside(container, "nvidia-smi", "-L")
        assert code == 0, output
        return listed(output)

    return look


@pytest.fixture
def ask(run):
    """Run a container with one device request as it is."""
    return lambda **request: run(host={"DeviceRequests": [request]})


def test_exactly_the_cards_asked_for_are_seen(run_with_cards, seen, uuids):
    assert seen(run_with_cards(uuids[3], uuids[1])) == [uuids[1], uuids[3]]


def test_a_request_without_a_driver_is_served_too(ask, seen, uuids):
    assert seen(ask(DeviceIDs=[uuids[2]], Capabilities=[["gpu"]])) == [uuids[2]]


def test_two_requests_by_number_get_the_same_first_cards(ask, seen, uuids):
    request = {"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu", "utility"]]}
    assert seen(ask(**request)) == seen(ask(**request)) == uuids[:1]
    assert seen(ask(**{**request, "Count": -1})) == uuids


def test_a_request_for_no_card_leaves_the_container_alone(ask, inside):
    code, output = inside(ask(Driver="nvidia", Count=0, Capabilities=[["gpu"]]), "nvidia-smi", "-L")
    assert (code, "executable file not found" in output) == (127, True)


def test_without_the_capability_utility_there_is_no_nvidia_smi(run_with_cards, inside, uuids):
    container = run_with_cards(uuids[0], capabilities=("gpu", "compute"))
    assert inside(container, "nvidia-smi", "-L")[0] == 127


def test_a_container_without_a_request_has_no_nvidia_smi(run, inside):
    assert inside(run(), "nvidia-smi")[0] == 127
    assert inside(run(), "sh", "-c", "nvidia-smi -L; echo $?") == (0, "sh: nvidia-smi: not found\n127\n")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            {"Driver": "nvidia", "DeviceIDs": ["GPU-dead"], "Capabilities": [["gpu"]]},
            "nvidia-container-cli: device error: GPU-dead: unknown device",
        ),
        (
            {"Driver": "nvidia", "Count": -1, "DeviceIDs": ["GPU-dead"], "Capabilities": [["gpu"]]},
            "cannot set both Count and DeviceIDs on device request",
        ),
        (
            {"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "nonsense"]]},
            'could not select device driver "nvidia" with capabilities: [[gpu nonsense]]',
        ),
        (
            {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]},
            'could not select device driver "cdi" with capabilities: []',
        ),
        ({"Driver": "nvidia", "Count": 5, "Capabilities": [["gpu"]]}, "device error: 4: unknown device"),
        ({"Driver": "nvidia", "Count": 10**12, "Capabilities": [["gpu"]]}, "device error: 4: unknown device"),
        ({"Driver": "amd", "Count": 1, "Capabilities": [["gpu"]]}, 'could not select device driver "amd"'),
    ],
)
def test_a_request_that_cannot_be_met_fails_the_start(client: docker.APIClient, create, request_, words):
    container = create(host={"DeviceRequests": [request_]})
    status, said = start_refused(lambda: client.start(container))
    assert (status, words in said) == (500, True)
    record = client.inspect_container(container)["State"]
    assert (record["Status"], record["ExitCode"]) == ("created", 128)
    assert words in record["Error"]


def test_without_the_toolkit_no_driver_is_found(ask, node: VirtualNode, client: docker.APIClient, uuids):
    node.toolkit = False
    status, words = start_refused(lambda: ask(DeviceIDs=uuids[:1], Capabilities=[["gpu"]]))
    assert (status, words) == (500, 'could not select device driver "" with capabilities: [[gpu]]')
    assert "nvidia" not in client.info()["Runtimes"]


def test_a_driver_that_does_not_answer_fails_the_start(run_with_cards, node: VirtualNode, uuids):
    node.driver_failure = "initialization error: nvml error: driver/library version mismatch"
    status, words = start_refused(lambda: run_with_cards(uuids[0]))
    assert (status, "nvidia-container-cli: initialization error: nvml error: driver/library" in words) == (500, True)


# --- With nvidia as the default runtime --------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [("all", [0, 1, 2, 3]), ("1,2", [1, 2]), ("{uuid}", [3]), ("none", []), ("void", None), ("", None), (None, None)],
)
def test_the_variable_decides_where_nvidia_is_the_default_runtime(
    run, inside, node: VirtualNode, uuids, value: str | None, expected: list[int] | None
):
    node.default_runtime = "nvidia"
    env = [] if value is None else [f"NVIDIA_VISIBLE_DEVICES={value.format(uuid=uuids[3])}"]
    code, output = inside(run(Env=env), "nvidia-smi", "-L")
    if expected is None:
        assert code == 127
    else:
        assert (code, listed(output)) == (0, [uuids[index] for index in expected])


def test_an_images_own_variable_opens_every_card_and_void_closes_them(run, inside, node: VirtualNode, uuids):
    node.default_runtime = "nvidia"
    node.image_env[IMAGE] = {"NVIDIA_VISIBLE_DEVICES": "all"}
    assert listed(inside(run(), "nvidia-smi", "-L")[1]) == uuids
    assert inside(run(Env=["NVIDIA_VISIBLE_DEVICES=void"]), "nvidia-smi", "-L")[0] == 127


def test_the_variable_means_nothing_to_the_plain_runtime(run, inside):
    assert inside(run(Env=["NVIDIA_VISIBLE_DEVICES=all"]), "nvidia-smi", "-L")[0] == 127


def test_a_request_goes_over_the_containers_own_variable(run_with_cards, seen, inside, uuids):
    container = run_with_cards(uuids[1], Env=["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute"])
    assert seen(container) == [uuids[1]]
    assert inside(container, "printenv", "NVIDIA_VISIBLE_DEVICES") == (0, f"{uuids[1]}\n")


def test_an_unknown_card_in_the_variable_fails_the_start(run, node: VirtualNode):
    node.default_runtime = "nvidia"
    status, words = start_refused(lambda: run(Env=["NVIDIA_VISIBLE_DEVICES=7"]))
    assert (status, "device error: 7: unknown device" in words) == (500, True)


# --- CDI and MIG -------------------------------------------------------------------------


def test_cdi_names_attach_cards_and_unknown_ones_are_refused(ask, seen, node: VirtualNode, uuids):
    node.cdi = True
    assert seen(ask(Driver="cdi", DeviceIDs=[f"nvidia.com/gpu={uuids[2]}"])) == [uuids[2]]
    assert seen(ask(Driver="cdi", DeviceIDs=["nvidia.com/gpu=all"])) == uuids
    status, words = start_refused(lambda: ask(Driver="cdi", DeviceIDs=["nvidia.com/gpu=GPU-dead"]))
    assert (status, words) == (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-dead")


def test_an_instance_shows_its_card_and_no_other_instance(run_with_cards, seen, node: VirtualNode, uuids):
    node.cards[0] = replace(node.cards[0], mig=INSTANCES)
    assert seen(run_with_cards(INSTANCES[1].uuid)) == [uuids[0], INSTANCES[1].uuid]
    assert seen(run_with_cards(uuids[0])) == [uuids[0], *(each.uuid for each in INSTANCES)]


# --- While the container runs ------------------------------------------------------------


def test_a_card_that_falls_off_the_bus_is_missing_inside(run_with_cards, seen, node: VirtualNode, serving, uuids):
    container = run_with_cards(uuids[0], uuids[3])
    serving.call(lambda: node.cards.pop(0))
    # The other keeps its place although the indexes shifted.
    assert seen(container) == [uuids[3]]


def test_a_breach_shows_other_cards_inside_and_another_record(
    client: docker.APIClient, run_with_cards, seen, node: VirtualNode, uuids
):
    container = run_with_cards(uuids[0])
    node.faults.inside_shows = [uuids[1], uuids[2]]
    node.faults.record_shows = [uuids[3]]
    assert seen(container) == [uuids[1], uuids[2]]
    (request,) = client.inspect_container(container)["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == [uuids[3]]


def test_nvidia_smi_can_hang_and_can_fail(client: docker.APIClient, run_with_cards, inside, node: VirtualNode, uuids):
    node.smi_failure = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124"
    node.smi_exit_code = 18
    container = run_with_cards(uuids[0])
    assert inside(container, "nvidia-smi", "-q", "-x") == (18, node.smi_failure + "\n")
    node.smi_hangs = True
    hanging = run_with_cards(uuids[0], command=("nvidia-smi", "-L"))
    assert client.inspect_container(hanging)["State"]["Running"] is True
    assert client.logs(hanging) == b""

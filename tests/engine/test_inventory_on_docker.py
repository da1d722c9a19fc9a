"""Probes of real Docker Engines: what is found, what is said, and that nothing is left behind."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gpus import inventory
from gpus.inventory import probe_node
from gpus.models import GpuDevice, Node
from tests.factories import make_node
from tests.parallel import in_parallel
from tests.services.fleet import Fleet, MigInstance
from tests.services.images import BUSYBOX, busybox_rootfs, import_image
from tests.services.service import find_program

pytestmark = pytest.mark.django_db(transaction=True)

BANNER = "miabi-test/banner:1"
BANNER_TEXT = (
    "==========\\n== CUDA ==\\n==========\\n\\nCUDA Version 12.4.1\\n\\nContainer image Copyright (c) 2016-2023, "
    "NVIDIA CORPORATION & AFFILIATES. All rights reserved.\\n"
)


@pytest.fixture(autouse=True)
def _platform(settings) -> None:
    settings.MIABI_GPU_ENABLED = True
    settings.MIABI_PROBE_WAIT_SECONDS = 20.0
    settings.MIABI_PULL_TIMEOUT_SECONDS = 20.0


@pytest.fixture
def node(docker_engine: str) -> Node:
    return make_node("gpu-1", engine=Node.Engine.DOCKER, address=docker_engine, gpu_capable=False, last_probe_ok=None)


@pytest.fixture
def client(docker_client: docker.APIClient) -> Iterator[docker.APIClient]:
    """The engine seen from outside; whatever the test leaves there is removed."""
    before = ids(docker_client)
    yield docker_client
    for container in ids(docker_client) - before:
        docker_client.remove_container(container, force=True)


def ids(client: docker.APIClient) -> set[str]:
    return {container["Id"] for container in client.containers(all=True)}


def discover(node: Node) -> list[GpuDevice]:
    outcome = probe_node(node.pk)
    assert outcome.code == "", outcome
    return list(node.devices.order_by("index"))


def light(node: Node, code: str) -> dict[str, str]:
    node.refresh_from_db()
    (found,) = [light for light in node.facts["lights"] if light["code"] == code]
    return found


# --- What is found -----------------------------------------------------------------------


def test_minor_numbers_indexes_and_addresses_are_the_drivers(node: Node, fleet: Fleet):
    devices = discover(node)
    assert [(device.uuid, device.index, device.minor_number, device.pci_bus_id) for device in devices] == [
        (card.uuid, index, card.minor, card.pci_bus_id) for index, card in enumerate(fleet.cards)
    ]


def test_the_facts_are_the_engines_own(node: Node, client: docker.APIClient):
    discover(node)
    version, info = client.version(), client.info()
    node.refresh_from_db()
    assert node.facts["engine_version"] == version["Version"]
    assert (node.facts["api_version"], node.facts["min_api_version"]) == (
        version["ApiVersion"],
        version["MinAPIVersion"],
    )
    assert node.facts["data_root"] == info["DockerRootDir"]
    assert "nvidia" in node.facts["runtimes"]
    assert light(node, "clock")["status"] == "ok"


def test_mig_instances_are_read_with_their_uuids(node: Node, fleet: Fleet):
    card = fleet.cards[3]
    instances = [
        MigInstance("MIG-5a1b0c9e-0000-4000-8000-00000000000a"),
        MigInstance("MIG-5a1b0c9e-0000-4000-8000-00000000000b"),
    ]
    fleet.turn_mig_on(card.uuid, instances)
    discover(node)
    parent = GpuDevice.objects.get(uuid=card.uuid)
    assert parent.mig_enabled
    assert [device.uuid for device in parent.instances.order_by("index")] == [instance.uuid for instance in instances]


def test_a_card_off_the_bus_is_missing_and_the_indexes_move_up(node: Node, fleet: Fleet):
    discover(node)
    gone, *left = fleet.uuids
    fleet.remove(gone)
    outcome = probe_node(node.pk)
    assert (outcome.code, outcome.vanished) == ("", 1)
    assert GpuDevice.objects.get(uuid=gone).presence == "missing"
    assert [GpuDevice.objects.get(uuid=uuid).index for uuid in left] == [0, 1, 2]


def test_an_images_entrypoint_and_banner_are_never_taken_for_an_answer(
    node: Node, client: docker.APIClient, fleet: Fleet
):
    import_image(
        client,
        busybox_rootfs(Path(find_program("busybox", package="busybox-static"))),
        BANNER,
        changes=['ENTRYPOINT ["sh", "-c", "printf \'' + BANNER_TEXT + "'\"]", 'CMD ["true"]'],
    )
    Node.objects.filter(pk=node.pk).update(probe_image=BANNER)
    assert [device.uuid for device in discover(node)] == fleet.uuids


def test_nvidia_as_the_default_runtime_is_a_red_light_on_a_capable_node(docker_engine_nvidia_default: str):
    node = make_node("gpu-1", address=docker_engine_nvidia_default, gpu_capable=False)
    discover(node)
    assert light(node, "default_runtime")["status"] == "bad"
    assert node.gpu_capable


# --- What goes wrong ---------------------------------------------------------------------


def test_an_engine_without_the_toolkit_is_asked_for_nothing(docker_engine_without_toolkit: str):
    node = make_node("gpu-1", address=docker_engine_without_toolkit)
    outcome = probe_node(node.pk)
    assert outcome.code == "toolkit_missing"
    assert "nvidia-ctk runtime configure" in outcome.hint
    assert light(node, "toolkit")["status"] == "bad"
    assert not node.gpu_capable


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("nvml error: driver/library version mismatch", "driver_mismatch"),
        ("nvml error: driver not loaded", "driver_missing"),
    ],
)
def test_what_the_toolkit_says_of_the_driver_is_told_apart(words: str, code: str, node: Node, fleet: Fleet):
    before = discover(node)
    fleet.fail(words)
    assert probe_node(node.pk).code == code
    node.refresh_from_db()
    assert words in node.last_probe_detail
    assert (node.gpu_capable, node.inventory_stale) == (False, True)
    assert list(node.devices.order_by("index")) == before
    assert {device.presence for device in node.devices.all()} == {"present"}


def test_no_card_at_all_keeps_the_known_ones_as_missing(node: Node, fleet: Fleet):
    discover(node)
    fleet.set(())
    outcome = probe_node(node.pk)
    assert (outcome.code, outcome.vanished) == ("no_devices", 4)
    assert set(node.devices.values_list("presence", flat=True)) == {"missing"}


def test_nvidia_smi_that_never_returns_is_a_hung_probe(node: Node, fleet: Fleet, settings):
    settings.MIABI_PROBE_WAIT_SECONDS = 2.0
    fleet.hang()
    assert probe_node(node.pk).code == "hung"


def test_an_image_that_cannot_be_pulled_keeps_the_inventory(node: Node):
    discover(node)
    Node.objects.filter(pk=node.pk).update(probe_image="registry.invalid/probe:1")
    assert probe_node(node.pk).code == "image_unavailable"
    node.refresh_from_db()
    assert (node.gpu_capable, node.inventory_stale) == (True, True)
    assert GpuDevice.objects.filter(presence="present").count() == 4


def test_an_image_without_a_shell_is_refused_in_the_engines_words(node: Node, client: docker.APIClient):
    import_image(client, empty_rootfs(), "miabi-test/empty:1")
    Node.objects.filter(pk=node.pk).update(probe_image="miabi-test/empty:1")
    assert probe_node(node.pk).code == "engine_refused"
    node.refresh_from_db()
    assert '"sh"' in node.last_probe_detail


def empty_rootfs() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folder = tarfile.TarInfo("usr/bin")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
    return buffer.getvalue()


# --- What is left behind -----------------------------------------------------------------


def works(fleet: Fleet) -> None:
    """Nothing goes wrong."""


def hangs(fleet: Fleet) -> None:
    fleet.hang()


def fails_to_start(fleet: Fleet) -> None:
    fleet.fail("nvml error: driver not loaded")


def has_no_cards(fleet: Fleet) -> None:
    fleet.set(())


@pytest.mark.parametrize("course", [works, hangs, fails_to_start, has_no_cards])
def test_no_container_is_left_whatever_the_probe_came_to(
    course, node: Node, fleet: Fleet, client: docker.APIClient, settings
):
    settings.MIABI_PROBE_WAIT_SECONDS = 2.0
    before = ids(client)
    course(fleet)
    assert probe_node(node.pk).ran
    assert ids(client) == before


def test_what_a_killed_probe_left_is_removed_and_what_is_not_ours_stays(node: Node, client: docker.APIClient):
    request = inventory._request(node)
    labels = dict(request.labels)
    left = started(client, request.container_name, labels)
    renamed = started(client, "miabi-test-renamed", labels)
    foreign = started(client, "miabi-test-foreign", {"io.miabi.role": "probe"})
    discover(node)
    assert ids(client).isdisjoint({left, renamed})
    assert foreign in ids(client)


def started(client: docker.APIClient, name: str, labels: dict[str, str]) -> str:
    container = client.create_container(BUSYBOX, ["sleep", "1000"], name=name, labels=labels)["Id"]
    client.start(container)
    return container


def test_probes_of_one_node_at_the_same_time_are_one(node: Node, client: docker.APIClient):
    before = ids(client)
    outcomes = in_parallel(probe_node, [node.pk] * 4)
    assert {outcome.code for outcome in outcomes} <= {"", "probe_running"}
    assert "" in {outcome.code for outcome in outcomes}
    assert GpuDevice.objects.count() == 4
    assert ids(client) == before


def test_two_nodes_that_are_one_engine_are_probed_beside_each_other(node: Node, docker_engine: str):
    twin = make_node("gpu-2", address=docker_engine)
    outcomes = in_parallel(probe_node, [node.pk, twin.pk])
    assert [outcome.code for outcome in outcomes] == ["", ""]
    twin.refresh_from_db()
    node.refresh_from_db()
    assert node.facts["warnings"] or twin.facts["warnings"]

"""The virtual node through the product's own driver, and through plain docker-py."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from engines import contract
from engines.contract import ContainerPhase, ContainerSpec, EngineAddress, GpuAttachment, OneShot
from engines.docker import DockerEngine
from engines.virtual.cards import MigInstance
from engines.virtual.faults import Fault
from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving, serve
from gpus.nvidia_smi import read_probe
from gpus.probe_command import PROBE_COMMAND, split_probe_output

LABELS = {"io.miabi.installation": "test"}
IMAGE = "busybox:1"


@pytest.fixture
def node() -> VirtualNode:
    return VirtualNode.with_cards("virtual-1", 4, pull_seconds=0.0)


@pytest.fixture
def serving(node: VirtualNode, tmp_path: Path) -> Iterator[Serving]:
    with serve([node], tmp_path) as running:
        yield running


@pytest.fixture
def engine(serving: Serving) -> Iterator[DockerEngine]:
    made = DockerEngine(EngineAddress(serving.urls[0], timeout_s=3))
    made.pull(IMAGE)
    yield made
    made.close()


def spec(name: str = "app-1", *command: str, cards: list[str] | None = None) -> ContainerSpec:
    return ContainerSpec(
        name, IMAGE, LABELS, command or ("sleep", "infinity"), gpu=GpuAttachment(tuple(cards)) if cards else None
    )


def started(engine: DockerEngine, made: ContainerSpec) -> str:
    container = engine.create(made)
    engine.start(container)
    return container


def test_it_says_who_it_is(engine: DockerEngine):
    facts = engine.facts()
    assert "nvidia" in facts.runtimes
    assert facts.default_runtime == "runc"


def test_a_container_sees_exactly_the_cards_it_was_given(engine: DockerEngine, node: VirtualNode):
    wanted = [node.cards[1].uuid, node.cards[3].uuid]
    container = started(engine, spec(cards=wanted))
    seen = engine.execute(container, ("nvidia-smi", "-L")).output.decode()
    assert [uuid for uuid in (card.uuid for card in node.cards) if uuid in seen] == wanted
    assert engine.inspect(container).requested_devices == tuple(wanted)


def test_a_container_without_cards_has_no_nvidia_smi(engine: DockerEngine):
    container = started(engine, spec())
    with pytest.raises(contract.RequestRefused):
        engine.execute(container, ("nvidia-smi", "-L"))


def test_an_unknown_card_is_refused_at_the_start(engine: DockerEngine):
    container = engine.create(spec(cards=["GPU-00000000-dead-beef-dead-000000000000"]))
    with pytest.raises(contract.DeviceRefused):
        engine.start(container)


def test_without_the_toolkit_nothing_is_attached(engine: DockerEngine, node: VirtualNode):
    node.toolkit = False
    container = engine.create(spec(cards=[node.cards[0].uuid]))
    with pytest.raises(contract.GpuDriverMissing):
        engine.start(container)


def test_the_product_reads_its_cards_with_mig_instances(engine: DockerEngine, node: VirtualNode):
    instance = MigInstance("MIG-00000000-0000-0000-0000-000000000001")
    node.cards[2] = replace(node.cards[2], mig=(instance,))
    result = engine.run_once(OneShot("probe", IMAGE, PROBE_COMMAND, LABELS, all_gpus=True))
    report = read_probe(*split_probe_output(result.stdout), exit_code=result.exit_code)
    assert report.failure is None
    assert [device.uuid for device in report.devices if not device.parent_uuid] == [card.uuid for card in node.cards]
    (mig,) = [device for device in report.devices if device.parent_uuid]
    assert (mig.uuid, mig.parent_uuid, mig.mig_profile) == (instance.uuid, node.cards[2].uuid, "1g.10gb")
    assert engine.list_containers(LABELS) == []


def test_a_command_ends_with_its_exit_code_and_output(engine: DockerEngine):
    container = started(engine, spec("job", "sh", "-c", "echo 'one; two' && false || echo three; exit 3"))
    time.sleep(0.1)
    status = engine.inspect(container)
    assert (status.phase, status.exit_code) == (ContainerPhase.EXITED, 3)
    assert b"".join(engine.logs(container)) == b"one; two\nthree\n"


def test_followed_logs_arrive_as_they_are_written(engine: DockerEngine):
    container = started(engine, spec("talker", "sh", "-c", "echo first; sleep 0.3; echo second"))
    assert b"".join(engine.logs(container, follow=True)) == b"first\nsecond\n"


def test_a_second_container_of_one_name_is_a_conflict(engine: DockerEngine):
    engine.create(spec("taken"))
    foreign = replace(spec("taken"), labels={"io.miabi.installation": "other"})
    with pytest.raises(contract.NameTaken):
        engine.create(foreign)


def test_a_removed_container_is_gone(engine: DockerEngine):
    container = started(engine, spec())
    engine.remove(container, grace_s=0)
    with pytest.raises(contract.ContainerNotFound):
        engine.inspect(container)
    engine.remove(container)


def test_plain_docker_py_lists_by_label(engine: DockerEngine, serving: Serving):
    container = started(engine, spec())
    client = docker.APIClient(serving.urls[0], version="auto")
    listed = client.containers(filters={"label": ["io.miabi.installation=test"]})
    assert [each["Id"] for each in listed] == [container]
    assert client.containers(filters={"label": ["io.miabi.installation=none"]}) == []
    client.close()


def test_a_lost_answer_to_create_leaves_a_container_that_the_second_try_finds(engine: DockerEngine, node: VirtualNode):
    node.faults.add(Fault("act_then_drop", "create", times=1))
    with pytest.raises(contract.EngineUnreachable):
        engine.create(spec())
    assert len(node.containers) == 1
    assert engine.create(spec()) == next(iter(node.containers))


def test_a_hang_ends_in_a_timeout_of_ours(serving: Serving, node: VirtualNode):
    node.faults.add(Fault("hang", "info", times=1))
    impatient = DockerEngine(EngineAddress(serving.urls[0], timeout_s=0.3))
    with pytest.raises(contract.EngineTimeout):
        impatient.facts()
    assert impatient.facts().api_version
    impatient.close()


def test_a_breach_can_be_played(engine: DockerEngine, node: VirtualNode):
    node.faults.inside_shows = ["all"]
    container = started(engine, spec(cards=[node.cards[0].uuid]))
    assert engine.execute(container, ("nvidia-smi", "-L")).output.count(b"GPU-") == 4


def test_an_image_that_is_not_there_cannot_be_pulled(engine: DockerEngine, node: VirtualNode):
    node.any_image = False
    with pytest.raises(contract.ImageUnavailable):
        engine.pull("registry.example.com/none:1")


def test_an_unkillable_container_is_not_reported_as_gone(engine: DockerEngine, node: VirtualNode):
    container = started(engine, spec())
    node.faults.unkillable = True
    with pytest.raises(contract.EngineError):
        engine.remove(container, grace_s=0)
    assert engine.inspect(container).phase is ContainerPhase.RUNNING


def test_a_reboot_ends_every_container_and_brings_none_back(engine: DockerEngine, node: VirtualNode, serving: Serving):
    container = started(engine, spec())
    serving.call(node.restart)
    assert engine.inspect(container).phase is ContainerPhase.EXITED


def test_two_hundred_nodes_are_served_by_one_thread(tmp_path: Path):
    nodes = [VirtualNode.with_cards(f"n{number}", 2) for number in range(200)]
    with serve(nodes, tmp_path) as running:
        engines = [DockerEngine(EngineAddress(url, timeout_s=10)) for url in running.urls]
        assert {engine.facts().host_name for engine in engines} == {node.name for node in nodes}
        for engine in engines:
            engine.close()
    assert not any(thread.name == "virtual-nodes" for thread in threading.enumerate())

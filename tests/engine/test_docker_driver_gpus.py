"""The Docker driver against a real dockerd: which cards a container sees."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import docker
import pytest

from engines.contract import (
    ContainerSpec,
    DeviceRefused,
    Engine,
    EngineAddress,
    GpuAttachment,
    GpuDriverMissing,
    OneShot,
)
from engines.docker import DockerEngine, connect

IMAGE = "busybox:test"
LISTED = re.compile(rb"UUID: ((?:GPU|MIG)-[0-9a-fA-F-]+)")


@pytest.fixture
def labels() -> dict[str, str]:
    return {"miabi.test": uuid.uuid4().hex}


@pytest.fixture
def engine(docker_engine: str, labels: dict[str, str]) -> Iterator[Engine]:
    yield from cleaned(docker_engine, labels)


@pytest.fixture
def engine_with_nvidia_default(docker_engine_nvidia_default: str, labels: dict[str, str]) -> Iterator[Engine]:
    yield from cleaned(docker_engine_nvidia_default, labels)


@pytest.fixture
def engine_without_toolkit(docker_engine_without_toolkit: str, labels: dict[str, str]) -> Iterator[Engine]:
    yield from cleaned(docker_engine_without_toolkit, labels)


def cleaned(url: str, labels: dict[str, str]) -> Iterator[Engine]:
    engine = connect(EngineAddress(url))
    yield engine
    for container in engine.list_containers(labels):
        engine.remove(container.id, grace_s=0)


@pytest.fixture
def spec(labels: dict[str, str]) -> Callable[..., ContainerSpec]:
    def build(*uuids: str, **fields: object) -> ContainerSpec:
        gpu = GpuAttachment(uuids) if uuids else None
        name = f"driver-gpu-{uuid.uuid4().hex[:12]}"
        built = ContainerSpec(name=name, image=IMAGE, labels=labels, command=("sleep", "600"), gpu=gpu)
        return replace(built, **fields)  # type: ignore[arg-type]

    return build


def probe(engine: Engine, labels: dict[str, str]) -> list[str]:
    """UUIDs of all cards of the node, as its nvidia-smi lists them."""
    job = OneShot(
        name=f"driver-probe-{uuid.uuid4().hex[:8]}",
        image=IMAGE,
        command=("nvidia-smi", "-L"),
        labels=labels,
        all_gpus=True,
    )
    return [each.decode() for each in LISTED.findall(engine.run_once(job).stdout)]


def seen_inside(engine: Engine, container: str) -> list[str]:
    """What ``nvidia-smi -L`` lists inside; nothing also where there is no such program."""
    script = "command -v nvidia-smi >/dev/null || exit 0; nvidia-smi -L"
    result = engine.execute(container, ("sh", "-c", script))
    assert result.exit_code == 0
    return [each.decode() for each in LISTED.findall(result.output)]


def start(engine: Engine, spec: ContainerSpec) -> str:
    container = engine.create(spec)
    engine.start(container)
    return container


def test_the_probe_sees_every_card(engine: Engine, labels: dict[str, str]) -> None:
    assert len(probe(engine, labels)) >= 2


def test_two_containers_with_a_card_each_see_their_own(
    engine: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    first, second, *_ = probe(engine, labels)

    one, two = start(engine, spec(first)), start(engine, spec(second))

    assert seen_inside(engine, one) == [first]
    assert seen_inside(engine, two) == [second]


def test_the_engines_record_names_the_same_cards(
    engine: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    cards = probe(engine, labels)[:2]

    status = engine.inspect(start(engine, spec(*cards)))

    assert status.requested_devices == tuple(cards)
    assert status.visible_devices_env == ",".join(cards)


def test_a_container_without_gpu_sees_none(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    container = start(engine, spec())

    assert seen_inside(engine, container) == []
    assert engine.inspect(container).requested_devices == ()
    assert engine.inspect(container).visible_devices_env == "void"


def test_a_swapped_card_is_a_refused_device(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    container = engine.create(spec("GPU-deadbeef-dead-beef-dead-beefdeadbeef"))

    with pytest.raises(DeviceRefused):
        engine.start(container)


def test_without_gpu_none_is_seen_where_nvidia_is_the_default_runtime(
    engine_with_nvidia_default: Engine, spec: Callable[..., ContainerSpec]
) -> None:
    assert seen_inside(engine_with_nvidia_default, start(engine_with_nvidia_default, spec())) == []


@pytest.fixture
def baked_image(docker_engine_nvidia_default: str) -> Iterator[str]:
    """An image that itself asks for every card, as CUDA images do."""
    client = docker.APIClient(docker_engine_nvidia_default, version="auto")
    base = client.create_container(IMAGE, ["true"])["Id"]
    client.commit(base, "driver-baked", "test", changes="ENV NVIDIA_VISIBLE_DEVICES=all")
    client.remove_container(base)
    yield "driver-baked:test"
    client.remove_image("driver-baked:test", force=True)
    client.close()


def test_an_image_that_asks_for_every_card_gets_none_without_a_grant(
    docker_engine_nvidia_default: str,
    engine_with_nvidia_default: Engine,
    baked_image: str,
    labels: dict[str, str],
    spec: Callable[..., ContainerSpec],
) -> None:
    # By its own way the image does get them: without this, the rest would prove nothing.
    client = docker.APIClient(docker_engine_nvidia_default, version="auto")
    leaking = client.create_container(baked_image, ["sleep", "600"], labels=labels)["Id"]
    client.start(leaking)
    assert len(seen_inside(engine_with_nvidia_default, leaking)) >= 2

    confined = start(engine_with_nvidia_default, spec(image=baked_image))

    assert seen_inside(engine_with_nvidia_default, confined) == []


def test_with_gpu_only_its_card_is_seen_where_nvidia_is_the_default_runtime(
    engine_with_nvidia_default: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    card = probe(engine_with_nvidia_default, labels)[1]

    assert seen_inside(engine_with_nvidia_default, start(engine_with_nvidia_default, spec(card))) == [card]


def test_a_node_without_toolkit_has_no_driver_for_cards(
    engine_without_toolkit: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    container = engine_without_toolkit.create(spec("GPU-deadbeef-dead-beef-dead-beefdeadbeef"))

    with pytest.raises(GpuDriverMissing):
        engine_without_toolkit.start(container)
    with pytest.raises(GpuDriverMissing):
        probe(engine_without_toolkit, labels)


def test_a_node_without_toolkit_still_runs_containers_without_gpu(
    engine_without_toolkit: Engine, spec: Callable[..., ContainerSpec]
) -> None:
    assert seen_inside(engine_without_toolkit, start(engine_without_toolkit, spec())) == []


def test_an_engine_that_does_not_know_cdi_has_no_driver_for_cards(
    docker_engine: str, engine: Engine, spec: Callable[..., ContainerSpec]
) -> None:
    by_cdi = DockerEngine(EngineAddress(docker_engine), attach_mode="cdi")
    container = by_cdi.create(spec("GPU-deadbeef-dead-beef-dead-beefdeadbeef"))

    with pytest.raises(GpuDriverMissing, match="cdi"):
        by_cdi.start(container)

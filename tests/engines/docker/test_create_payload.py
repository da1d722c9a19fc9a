"""What a container may be, as the engine is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.contract import ContainerSpec, GpuAttachment, HealthCheck, OneShot, PortMapping, VolumeMount
from engines.docker.container_config import container_config, one_shot_config

CARD = "GPU-11111111-1111-1111-1111-111111111111"
SPEC = ContainerSpec(name="app-1", image="registry.example.com/app:1", labels={"miabi.app": "7"})
PROBE = OneShot(name="probe", image="cuda:1", command=("nvidia-smi", "-q", "-x"), labels={"miabi.probe": "1"})


def host_config(spec: ContainerSpec) -> dict[str, Any]:
    config: dict[str, Any] = container_config(spec)["HostConfig"]
    return config


def environment(config: dict[str, Any]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in config["Env"])


@pytest.mark.parametrize("gpu", [None, GpuAttachment((CARD,))])
def test_no_container_is_privileged_or_can_become_so(gpu: GpuAttachment | None) -> None:
    config = host_config(replace(SPEC, gpu=gpu))

    assert config["Privileged"] is False
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert config["CapDrop"] == ["ALL"]
    assert config["CapAdd"] == []


def test_nothing_of_the_host_is_in_the_payload() -> None:
    spec = replace(SPEC, gpu=GpuAttachment((CARD,)), volumes=(VolumeMount("models", "/models"),))

    host_ways = {"Binds", "Devices", "DeviceCgroupRules", "PidMode", "IpcMode", "NetworkMode", "UTSMode"}
    assert not host_ways & set(host_config(spec))


def test_the_engine_never_restarts_a_container_by_itself() -> None:
    assert host_config(SPEC)["RestartPolicy"] == {"Name": "no"}
    assert host_config(SPEC)["AutoRemove"] is False


def test_the_platforms_allow_list_of_capabilities_is_added_back() -> None:
    assert host_config(replace(SPEC, cap_add=("CHOWN",)))["CapAdd"] == ["CHOWN"]


def test_limits_are_sent_in_the_engines_units_and_swap_is_none() -> None:
    config = host_config(replace(SPEC, memory_bytes=1 << 30, nano_cpus=1_500_000_000, pids_limit=64))

    assert (config["Memory"], config["MemorySwap"]) == (1 << 30, 1 << 30)
    assert config["NanoCpus"] == 1_500_000_000
    assert config["PidsLimit"] == 64


def test_logs_are_rotated() -> None:
    assert host_config(replace(SPEC, log_max_bytes=1000, log_max_files=2))["LogConfig"] == {
        "Type": "json-file",
        "Config": {"max-size": "1000", "max-file": "2"},
    }


def test_a_published_port_gets_a_host_port_of_the_engines_choice() -> None:
    spec = replace(SPEC, ports=(PortMapping(8000, publish=True), PortMapping(9000, "udp")))

    assert set(container_config(spec)["ExposedPorts"]) == {"8000/tcp", "9000/udp"}
    assert host_config(spec)["PortBindings"] == {"8000/tcp": [{"HostIp": "", "HostPort": ""}]}


def test_volumes_are_mounted_by_name() -> None:
    assert host_config(replace(SPEC, volumes=(VolumeMount("models", "/m", read_only=True),)))["Mounts"] == [
        {"Type": "volume", "Source": "models", "Target": "/m", "ReadOnly": True}
    ]


@pytest.mark.parametrize("name", ["/etc", "../etc", "", "a/b", "models\n", "."])
def test_a_path_is_no_volume(name: str) -> None:
    with pytest.raises(ValueError, match="not a volume's name"):
        container_config(replace(SPEC, volumes=(VolumeMount(name, "/m"),)))


def test_health_check_durations_are_nanoseconds() -> None:
    spec = replace(SPEC, health=HealthCheck(("true",), interval_s=1.5, timeout_s=0.25, retries=2, start_period_s=3))

    assert container_config(spec)["Healthcheck"] == {
        "Test": ["CMD", "true"],
        "Interval": 1_500_000_000,
        "Timeout": 250_000_000,
        "StartPeriod": 3_000_000_000,
        "Retries": 2,
    }


def test_without_a_command_the_images_own_is_kept() -> None:
    assert "Cmd" not in container_config(SPEC)
    assert "Entrypoint" not in container_config(replace(SPEC, command=("serve",)))


def test_a_container_without_gpu_is_told_to_see_none() -> None:
    config = container_config(replace(SPEC, env={"MODEL": "x"}))

    assert environment(config)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert environment(config)["MODEL"] == "x"
    assert config["HostConfig"]["DeviceRequests"] == []


def test_a_container_with_gpu_is_told_to_see_its_cards_only() -> None:
    config = container_config(replace(SPEC, gpu=GpuAttachment((CARD,))))

    assert environment(config)["NVIDIA_VISIBLE_DEVICES"] == CARD
    assert [request["DeviceIDs"] for request in config["HostConfig"]["DeviceRequests"]] == [[CARD]]


@pytest.mark.parametrize(
    "key",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "nvidia_visible_devices",
        "Nvidia_Anything",
        "CUDA_VISIBLE_DEVICES",
        "cuda_visible_devices",
    ],
)
def test_a_spec_cannot_set_what_decides_the_visible_cards(key: str) -> None:
    with pytest.raises(ValueError, match="set by the platform alone"):
        container_config(replace(SPEC, env={key: "all"}))


@pytest.mark.parametrize(("key", "value"), [("", "x"), ("A=NVIDIA_VISIBLE_DEVICES", "all"), ("A\0", ""), ("A", "\0")])
def test_a_malformed_variable_is_an_error(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="environment variable"):
        container_config(replace(SPEC, env={key: value}))


def test_the_platform_exports_facts_under_its_own_names() -> None:
    assert environment(container_config(replace(SPEC, env={"MIABI_GPU_COUNT": "1"})))["MIABI_GPU_COUNT"] == "1"


def test_a_one_shot_overrides_the_entrypoint_of_its_image() -> None:
    config = one_shot_config(PROBE)

    assert config["Entrypoint"] == ["nvidia-smi"]
    assert config["Cmd"] == ["-q", "-x"]


def test_a_one_shot_sees_cards_only_when_it_asks_for_all() -> None:
    blind, seeing = one_shot_config(PROBE), one_shot_config(replace(PROBE, all_gpus=True))

    assert environment(blind)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert blind["HostConfig"]["DeviceRequests"] == []
    assert environment(seeing)["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert seeing["HostConfig"]["DeviceRequests"][0]["Count"] == -1


def test_a_one_shot_has_no_network_and_no_privileges() -> None:
    config = one_shot_config(replace(PROBE, all_gpus=True))["HostConfig"]

    assert config["NetworkMode"] == "none"
    assert config["Privileged"] is False
    assert config["CapDrop"] == ["ALL"]

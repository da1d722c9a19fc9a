"""From a ``ContainerSpec`` to the body of ``POST /containers/create``. Pure.

Source of names and units: Docker Engine API v1.41, ContainerCreate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from engines.contract import ContainerSpec, HealthCheck, OneShot, PortMapping, VolumeMount
from engines.docker.device_requests import (
    DRIVER_CAPABILITIES,
    VISIBLE_DEVICES,
    AttachMode,
    device_requests,
    every_card_request,
    gpu_environment,
)

ONE_SHOT_PIDS_LIMIT = 512
# json-file spends about 75 bytes beside each line. With this factor and a second file, what is
# left after a rotation is still longer than the output limit: a cut never goes unnoticed.
_LOG_OVERHEAD = 40
NANOSECONDS = 1_000_000_000
_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_RESERVED_KEY = re.compile(r"NVIDIA_.*|CUDA_VISIBLE_DEVICES", re.IGNORECASE)
_PROTOCOLS = frozenset({"tcp", "udp", "sctp"})


def container_config(spec: ContainerSpec, *, attach_mode: AttachMode = "device_request") -> dict[str, Any]:
    """The create body for a tenant's container.

    Restart policy ``no``: a container that the engine itself brings back would hold
    cards that the platform counts as free. No init process is asked for: an engine
    without ``docker-init`` refuses to start such a container.

    Raises:
        ValueError: the spec says what the layers above must already have refused.
    """
    return {
        "Image": spec.image,
        **({"Cmd": list(spec.command)} if spec.command else {}),
        "Env": _environment(spec),
        "Labels": dict(spec.labels),
        "User": spec.user,
        "Tty": False,
        "ExposedPorts": {_port_key(port): {} for port in spec.ports},
        **({"Healthcheck": _healthcheck(spec.health)} if spec.health else {}),
        "HostConfig": {
            **_confinement(cap_drop=spec.cap_drop, cap_add=spec.cap_add, pids_limit=spec.pids_limit),
            **_memory(spec.memory_bytes),
            **({"NanoCpus": spec.nano_cpus} if spec.nano_cpus is not None else {}),
            "LogConfig": _log_config(spec.log_max_bytes, spec.log_max_files),
            "Mounts": [_mount(volume) for volume in spec.volumes],
            # An empty host port: the engine takes a free one.
            "PortBindings": {_port_key(port): [{"HostIp": "", "HostPort": ""}] for port in spec.ports if port.publish},
            "DeviceRequests": device_requests(spec.gpu, attach_mode=attach_mode),
        },
    }


def one_shot_config(job: OneShot, *, attach_mode: AttachMode = "device_request") -> dict[str, Any]:
    """The create body for the platform's own short container: no network, no image entrypoint.

    An image's entrypoint may print a banner into what is to be parsed.

    Raises:
        ValueError: no command.
    """
    if not job.command:
        raise ValueError("a one-shot needs a command")
    environment = gpu_environment(None) | (
        {VISIBLE_DEVICES: "all", DRIVER_CAPABILITIES: "utility"} if job.all_gpus else {}
    )
    return {
        "Image": job.image,
        "Entrypoint": [job.command[0]],
        "Cmd": list(job.command[1:]),
        "Env": _pairs(environment),
        "Labels": dict(job.labels),
        "Tty": False,
        "HostConfig": {
            **_confinement(cap_drop=("ALL",), cap_add=(), pids_limit=ONE_SHOT_PIDS_LIMIT),
            "NetworkMode": "none",
            "LogConfig": _log_config(job.output_limit_bytes * _LOG_OVERHEAD, 2),
            "DeviceRequests": every_card_request(attach_mode) if job.all_gpus else [],
        },
    }


def _confinement(*, cap_drop: tuple[str, ...], cap_add: tuple[str, ...], pids_limit: int) -> dict[str, Any]:
    if pids_limit < 1:
        raise ValueError("the pids limit is at least 1")
    return {
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": list(cap_drop),
        "CapAdd": list(cap_add),
        "PidsLimit": pids_limit,
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
    }


def _memory(limit: int | None) -> dict[str, int]:
    if limit is None:
        return {}
    # Equal values mean no swap beyond the memory (API: MemorySwap is memory plus swap).
    return {"Memory": limit, "MemorySwap": limit}


def _log_config(max_bytes: int, max_files: int) -> dict[str, Any]:
    if max_bytes < 1 or max_files < 1:
        raise ValueError("log rotation needs a positive size and at least one file")
    return {"Type": "json-file", "Config": {"max-size": str(max_bytes), "max-file": str(max_files)}}


def _environment(spec: ContainerSpec) -> list[str]:
    for key, value in spec.env.items():
        if not key or "=" in key or "\0" in key + value:
            raise ValueError(f"not a name and value of an environment variable: {key!r}")
        if _RESERVED_KEY.fullmatch(key):
            raise ValueError(f"{key} is set by the platform alone")
    return _pairs({**spec.env, **gpu_environment(spec.gpu)})


def _pairs(environment: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in environment.items()]


def _port_key(port: PortMapping) -> str:
    if not 1 <= port.container_port <= 65535:
        raise ValueError(f"not a port: {port.container_port}")
    if port.protocol not in _PROTOCOLS:
        raise ValueError(f"not a protocol: {port.protocol!r}")
    return f"{port.container_port}/{port.protocol}"


def _mount(mount: VolumeMount) -> dict[str, Any]:
    # ``Type: volume`` makes the engine read the source as a volume's name, and never as a path.
    check_volume_name(mount.volume)
    if not mount.path.startswith("/"):
        raise ValueError(f"not an absolute path: {mount.path!r}")
    return {"Type": "volume", "Source": mount.volume, "Target": mount.path, "ReadOnly": mount.read_only}


def check_volume_name(name: str) -> None:
    """Raise ValueError unless ``name`` is the name of a volume."""
    if not _VOLUME_NAME.fullmatch(name):
        raise ValueError(f"not a volume's name: {name!r}")


def _healthcheck(health: HealthCheck) -> dict[str, Any]:
    """Durations in nanoseconds; the engine refuses those below a millisecond, except 0."""
    if not health.command:
        raise ValueError("a health check needs a command")
    return {
        "Test": ["CMD", *health.command],
        "Interval": _nanoseconds(health.interval_s),
        "Timeout": _nanoseconds(health.timeout_s),
        "StartPeriod": _nanoseconds(health.start_period_s),
        "Retries": health.retries,
    }


def _nanoseconds(seconds: float) -> int:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"not a duration: {seconds!r}")
    return round(seconds * NANOSECONDS)

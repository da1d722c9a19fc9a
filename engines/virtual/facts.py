"""What a virtual node says about itself: ``/version`` and ``/info``."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from engines.virtual.create_checks import CPUS
from engines.virtual.gpu_attachment import cdi_names

if TYPE_CHECKING:
    from engines.virtual.node import VirtualNode

ENGINE_VERSION = "28.0.0-virtual"
MEMORY_BYTES = 64 * 2**30


def version(node: VirtualNode) -> dict[str, Any]:
    return {
        "Platform": {"Name": node.platform},
        "Version": ENGINE_VERSION,
        "ApiVersion": node.api_version,
        "MinAPIVersion": node.min_api_version,
        "Os": "linux",
        "Arch": "amd64",
        "KernelVersion": node.kernel_version,
        "BuildTime": "2026-01-01T00:00:00.000000000+00:00",
        "Components": [{"Name": "Engine", "Version": ENGINE_VERSION, "Details": {"ApiVersion": node.api_version}}],
    }


def runtimes(node: VirtualNode) -> dict[str, Any]:
    found: dict[str, Any] = {"runc": {"path": "runc"}}
    if node.toolkit:
        found["nvidia"] = {"path": "nvidia-container-runtime"}
    return found


def info(node: VirtualNode) -> dict[str, Any]:
    states = [container.status for container in node.containers.values()]
    running = states.count("running")
    facts: dict[str, Any] = {
        "ID": _engine_id(node.name),
        "Name": node.name,
        "ServerVersion": ENGINE_VERSION,
        "OperatingSystem": node.operating_system,
        "OSType": "linux",
        "KernelVersion": node.kernel_version,
        "Architecture": "x86_64",
        "Driver": "overlay2",
        "DockerRootDir": node.data_root,
        "LoggingDriver": "json-file",
        "CgroupDriver": "systemd",
        "CgroupVersion": "2",
        "Runtimes": runtimes(node),
        "DefaultRuntime": node.default_runtime,
        "SecurityOptions": list(node.security_options),
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"] if node.cdi else [],
        "Swarm": {"LocalNodeState": "inactive"},
        "NCPU": CPUS,
        "MemTotal": MEMORY_BYTES,
        "SystemTime": node.now(),
        "Images": len(node.images),
        "Containers": len(states),
        "ContainersRunning": running,
        "ContainersPaused": 0,
        "ContainersStopped": len(states) - running,
        "Labels": [],
        "Warnings": None,
    }
    if node.cdi and _at_least(node.api_version, (1, 50)):
        facts["DiscoveredDevices"] = [{"Source": "cdi", "ID": name} for name in cdi_names(node)]
    return facts


def _engine_id(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _at_least(version: str, least: tuple[int, int]) -> bool:
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) >= least

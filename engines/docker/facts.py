"""Who the engine is: ``/version`` and ``/info`` as ``EngineFacts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.contract import EngineFacts
from engines.docker.records import moment
from engines.docker.transport import Transport


def read_facts(transport: Transport) -> EngineFacts:
    """Ask the engine who it is. Two calls, since an engine may be replaced at any time."""
    version = transport.call("GET", "/version")
    version.raise_for_error()
    info = transport.call("GET", "/info")
    info.raise_for_error()
    return version.read_as(lambda who: info.read_as(lambda how: facts_from(who, how)))


def facts_from(version: Mapping[str, Any], info: Mapping[str, Any]) -> EngineFacts:
    """Pure part of ``read_facts``. What an engine does not tell is empty or None, never 0."""
    return EngineFacts(
        engine_version=str(version.get("Version", "")),
        api_version=str(version.get("ApiVersion", "")),
        min_api_version=str(version.get("MinAPIVersion", "")),
        operating_system=str(info.get("OperatingSystem", "")),
        kernel_version=str(info.get("KernelVersion", "")),
        architecture=str(info.get("Architecture", "")),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        default_runtime=str(info.get("DefaultRuntime", "")),
        security_options=tuple(info.get("SecurityOptions") or ()),
        cdi_spec_dirs=tuple(info.get("CDISpecDirs") or ()),
        cdi_devices=cdi_devices(info),
        cpus=info.get("NCPU") or None,
        memory_bytes=info.get("MemTotal") or None,
        host_name=str(info.get("Name", "")),
        system_time=moment(info.get("SystemTime")),
        engine_id=str(info.get("ID") or ""),
        data_root=str(info.get("DockerRootDir") or ""),
    )


def read_cdi_devices(transport: Transport) -> tuple[str, ...]:
    """The CDI names that the engine lists now."""
    info = transport.call("GET", "/info")
    info.raise_for_error()
    return info.read_as(cdi_devices)


def cdi_devices(info: Mapping[str, Any]) -> tuple[str, ...]:
    """CDI names that the engine discovered (API 1.50 and newer); empty on older ones."""
    return tuple(
        str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or [] if device.get("Source") == "cdi"
    )

"""What dockerd refuses about the body of a create call, in its words. Pure."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from engines.virtual.containers import Mount
from engines.virtual.json_shape import CONTAINER, check_shape
from engines.virtual.messages import ApiError

CPUS = 16
LEAST_MEMORY = 6 * 1024 * 1024
CONTAINER_NAME = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]+\Z")
VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*\Z")


def check_name(name: str) -> None:
    """Raises ApiError for a name that no container may have."""
    if not CONTAINER_NAME.match(name):
        raise ApiError(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")


def check_config(config: Mapping[str, Any], runtimes: Mapping[str, Any]) -> None:
    """Raises ApiError for a body with a wrong type, a limit out of range, or an unknown runtime."""
    check_shape(config, CONTAINER)
    host = config.get("HostConfig") or {}
    for port, bindings in (host.get("PortBindings") or {}).items():
        numbers = [port.partition("/")[0], *(binding.get("HostPort") or "0" for binding in bindings or [])]
        if not all(number.isdecimal() and int(number) <= 65535 for number in numbers):
            raise ApiError(400, f"invalid port specification: {port!r} to {bindings}")
    memory, cpus = host.get("Memory") or 0, host.get("NanoCpus") or 0
    if memory and memory < LEAST_MEMORY:
        raise ApiError(400, "Minimum memory limit allowed is 6MB")
    if not 0 <= cpus <= CPUS * 10**9:
        raise ApiError(400, f"range of CPUs is from 0.01 to {CPUS}.00, as there are only {CPUS} CPUs available")
    runtime = host.get("Runtime")
    if runtime and runtime not in runtimes:
        raise ApiError(400, f"unknown or invalid runtime name: {runtime}")


def check_volume_name(name: str) -> None:
    if not VOLUME_NAME.match(name):
        raise ApiError(
            400,
            f'create {name}: "{name}" includes invalid characters for a local volume name, only '
            '"[a-zA-Z0-9][a-zA-Z0-9_.-]" are allowed. If you intended to pass a host directory, use absolute path',
        )


def read_mounts(config: Mapping[str, Any]) -> list[Mount]:
    """The container's mounts as its record tells them; volumes without a name get one.

    Raises:
        ApiError: a host path, which is not there, or a volume's name that cannot be.
    """
    host = config.get("HostConfig") or {}
    mounts: list[Mount] = []
    for each in host.get("Mounts") or []:
        kind, source = each.get("Type"), str(each.get("Source") or "")
        if kind == "bind":
            raise ApiError(400, f'invalid mount config for type "bind": bind source path does not exist: {source}')
        if kind == "volume":
            mounts.append(_volume(source, str(each.get("Target")), read_only=bool(each.get("ReadOnly"))))
    for bind in host.get("Binds") or []:
        source, _, rest = str(bind).partition(":")
        target, _, options = rest.partition(":")
        if source.startswith("/"):
            mounts.append({"Type": "bind", "Source": source, "Destination": target, "Mode": options, "RW": True})
        else:
            mounts.append(_volume(source, target, read_only="ro" in options.split(",")))
    for target in config.get("Volumes") or {}:
        if not any(mount["Destination"] == target for mount in mounts):
            mounts.append(_volume("", target, read_only=False))
    return mounts


def named_sources(config: Mapping[str, Any]) -> set[str]:
    """The sources that the body names; a volume of another name was made up."""
    host = config.get("HostConfig") or {}
    mounts = {str(mount.get("Source") or "") for mount in host.get("Mounts") or []}
    return mounts | {str(bind).partition(":")[0] for bind in host.get("Binds") or []}


def _volume(name: str, target: str, *, read_only: bool) -> Mount:
    if name:
        check_volume_name(name)
    return {
        "Type": "volume",
        "Name": name or secrets.token_hex(32),
        "Source": f"/var/lib/docker/volumes/{name}/_data",
        "Destination": target,
        "Driver": "local",
        "Mode": "z",
        "RW": not read_only,
        "Propagation": "",
    }

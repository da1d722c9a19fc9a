"""What dockerd refuses about the body of a create call, in its words. Pure."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from engines.virtual.containers import Mount
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
    for key, kind in (("Cmd", list), ("Entrypoint", list), ("Env", list), ("Labels", dict), ("HostConfig", dict)):
        value = config.get(key)
        if value is not None and not isinstance(value, kind) and not (kind is list and isinstance(value, str)):
            raise ApiError(400, f"invalid JSON: json: cannot unmarshal into Go struct field .{key}")
    host = config.get("HostConfig") or {}
    for key, kind in (("DeviceRequests", list), ("Mounts", list), ("Binds", list), ("PortBindings", dict)):
        if host.get(key) is not None and not isinstance(host[key], kind):
            raise ApiError(400, f"invalid JSON: json: cannot unmarshal into Go struct field HostConfig.{key}")
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

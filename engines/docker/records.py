"""Reading the engine's records of containers and of itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engines.contract import ContainerPhase, ContainerStatus
from engines.docker.device_requests import CDI_KIND, VISIBLE_DEVICES

# The list call tells these only in its sentence, e.g. "Exited (137) 2 minutes ago" or
# "Up 3 minutes (health: starting)".
_EXITED = re.compile(r"Exited \((-?\d+)\)")
_HEALTH = re.compile(r"\((?:health: )?(healthy|unhealthy|starting)\)")


def from_inspect(record: Mapping[str, Any]) -> ContainerStatus:
    """The answer of ``GET /containers/{id}/json``."""
    state = record.get("State") or {}
    config = record.get("Config") or {}
    host_config = record.get("HostConfig") or {}
    phase = _phase(state.get("Status"))
    ended = phase in (ContainerPhase.EXITED, ContainerPhase.DEAD)
    health = (state.get("Health") or {}).get("Status", "")
    return ContainerStatus(
        id=record["Id"],
        name=str(record.get("Name", "")).removeprefix("/"),
        image=str(config.get("Image", "")),
        labels=dict(config.get("Labels") or {}),
        phase=phase,
        exit_code=state.get("ExitCode") if ended else None,
        oom_killed=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at=moment(state.get("StartedAt")),
        finished_at=moment(state.get("FinishedAt")),
        health="" if health == "none" else health,
        requested_devices=_requested_devices(host_config.get("DeviceRequests") or []),
        visible_devices_env=_variable(config.get("Env") or [], VISIBLE_DEVICES),
        host_ports=_published((record.get("NetworkSettings") or {}).get("Ports") or {}),
    )


def from_list(record: Mapping[str, Any]) -> ContainerStatus:
    """One entry of ``GET /containers/json``, which leaves out devices, environment and times."""
    sentence = str(record.get("Status", ""))
    exited = _EXITED.match(sentence)
    health = _HEALTH.search(sentence)
    names = record.get("Names") or [""]
    ports = record.get("Ports") or []
    return ContainerStatus(
        id=record["Id"],
        name=str(names[0]).removeprefix("/"),
        image=str(record.get("Image", "")),
        labels=dict(record.get("Labels") or {}),
        phase=_phase(record.get("State")),
        exit_code=int(exited.group(1)) if exited else None,
        oom_killed=False,
        error="",
        started_at=None,
        finished_at=None,
        health=health.group(1) if health else "",
        requested_devices=(),
        visible_devices_env=None,
        host_ports={port["PrivatePort"]: port["PublicPort"] for port in ports if port.get("PublicPort")},
        complete=False,
    )


def created_id(record: Mapping[str, Any]) -> str:
    """The id in the answer to a create, of a container or of an exec."""
    if not isinstance(record["Id"], str) or not record["Id"]:
        raise ValueError("a create without an id")
    return record["Id"]


def exec_exit_code(record: Mapping[str, Any]) -> int | None:
    """``GET /exec/{id}/json``; None while the command runs."""
    code = record.get("ExitCode")
    return None if record.get("Running") or code is None else int(code)


def moment(text: Any) -> datetime | None:
    """An RFC 3339 time of the engine; None where it has none (year 1) or the text is no time."""
    try:
        parsed = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.year > 1 and parsed.tzinfo else None


def carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether ``labels`` has every one of ``wanted``; images add labels of their own."""
    return wanted.items() <= labels.items()


def _phase(word: Any) -> ContainerPhase:
    try:
        return ContainerPhase(word)
    except ValueError:
        return ContainerPhase.UNKNOWN


def _requested_devices(requests: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """Every device asked for. A request by number is told as such: it is not "no device"."""
    devices: list[str] = []
    for request in requests:
        devices += [str(device).removeprefix(f"{CDI_KIND}=") for device in request.get("DeviceIDs") or []]
        count = request.get("Count") or 0
        if count:
            devices.append("all" if count < 0 else f"count={count}")
    return tuple(devices)


def _variable(environment: list[str], key: str) -> str | None:
    values = [pair.partition("=")[2] for pair in environment if pair.startswith(f"{key}=")]
    # Where a name occurs twice, the process sees the last.
    return values[-1] if values else None


def _published(ports: Mapping[str, list[Mapping[str, str]] | None]) -> dict[int, int]:
    published: dict[int, int] = {}
    for key, bindings in ports.items():
        for binding in bindings or []:
            if binding.get("HostPort"):
                published.setdefault(int(key.partition("/")[0]), int(binding["HostPort"]))
    return published

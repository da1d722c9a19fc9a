"""The control API below ``/_virtual/``: for tests that drive a node in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engines.virtual import settings
from engines.virtual.containers import KILLED, Container
from engines.virtual.faults import Fault
from engines.virtual.messages import Answer, ApiError, Request, answer_json
from engines.virtual.node import VirtualNode

_NUMBER = (int, float)
_FAULT_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "how": str,
    "operation": str,
    "times": (int, type(None)),
    "seconds": _NUMBER,
    "status": int,
    "message": str,
    "jitter": _NUMBER,
    "skip": int,
    "in_stream": bool,
    "after_bytes": int,
    "exit_code": int,
    "oom": bool,
}
_FAULTS_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "faults": list,
    "inside_shows": (list, type(None)),
    "record_shows": (list, type(None)),
    "unkillable": bool,
    "unkillable_after_s": _NUMBER,
}
_RESTART_FIELDS: Mapping[str, type | tuple[type, ...]] = {"down_s": _NUMBER, "lost": list}
_END_FIELDS: Mapping[str, type | tuple[type, ...]] = {"exit_code": int, "oom": bool}


async def read_state(node: VirtualNode, request: Request, key: str) -> Answer:
    """Settings, cards, containers with the devices they hold, images, volumes and faults."""
    return answer_json(
        {
            "name": node.name,
            **settings.settings_of(node),
            "images": sorted(node.images),
            "volumes": sorted(node.volumes.records),
            "containers": [_container(each) for each in node.containers.values()],
            "faults": [asdict(fault) for fault in node.faults.active],
            **{name: getattr(node.faults, name) for name in _FAULTS_FIELDS if name != "faults"},
        }
    )


def _container(container: Container) -> dict[str, Any]:
    return {
        "id": container.id,
        "name": container.name,
        "status": container.status,
        "exit_code": container.exit_code,
        "labels": container.labels,
        "devices": list(container.attachment.ids) if container.running else [],
    }


async def put_faults(node: VirtualNode, request: Request, key: str) -> Answer:
    """``{"faults": [...], "unkillable": ..., ...}``: replaces all there are; ``{}`` ends them."""
    body = _read(request, _FAULTS_FIELDS)
    faults = [_read_fault(number, each) for number, each in enumerate(body.pop("faults", []))]
    node.faults.clear()
    node.faults.active = faults
    for name, value in body.items():
        setattr(node.faults, name, value)
    return Answer(204)


def _read_fault(number: int, entry: Any) -> Fault:
    try:
        settings.check_fields(f"faults[{number}]", entry, _FAULT_FIELDS)
        fault = Fault(**entry)
        fault.check()
    except (TypeError, ValueError) as error:
        raise ApiError(400, str(error)) from error
    return fault


def _read(request: Request, allowed: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The body with only ``allowed`` fields; an empty body has none. Raises ApiError."""
    body = request.json if request.body else {}
    try:
        settings.check_fields("the body", body, allowed)
    except ValueError as error:
        raise ApiError(400, str(error)) from error
    return body


async def patch_node(node: VirtualNode, request: Request, key: str) -> Answer:
    """Change settings and cards; see ``settings``."""
    try:
        settings.apply_settings(node, request.json)
    except ValueError as error:
        raise ApiError(400, str(error)) from error
    return Answer(204)


async def restart(node: VirtualNode, request: Request, key: str) -> Answer:
    """``{"down_s": 2.5, "lost": ["GPU-..."]}``: the host reboots, without some of its cards."""
    body = _read(request, _RESTART_FIELDS)
    node.restart(down_s=body.get("down_s", 0), lost=[str(each) for each in body.get("lost", [])])
    return Answer(204)


async def end_container(node: VirtualNode, request: Request, key: str) -> Answer:
    """``{"exit_code": 1, "oom": false}``: the container's process ends by itself, now."""
    container = node.find(key)
    body = _read(request, _END_FIELDS)
    oom = body.get("oom", False)
    exit_code = body.get("exit_code", KILLED if oom else 1)
    if not 0 <= exit_code <= 255:
        raise ApiError(400, "exit_code must be from 0 to 255")
    if not container.running:
        raise ApiError(409, f"container {container.id} is not running")
    node.kill(container, exit_code, oom=oom, by_hand=False)
    return Answer(204)

"""The control API below ``/_virtual/``: for tests that drive a node in another process."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from engines.virtual import settings
from engines.virtual.containers import KILLED, Container
from engines.virtual.faults import Fault
from engines.virtual.messages import Answer, ApiError, Request, answer_json
from engines.virtual.node import VirtualNode

_FAULT_FIELDS = frozenset(each.name for each in fields(Fault))
_LIES = {"inside_shows": (list, type(None)), "record_shows": (list, type(None)), "unkillable": bool}


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
            **{name: getattr(node.faults, name) for name in (*_LIES, "unkillable_after_s")},
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
    body = request.json
    faults = [_read_fault(each) for each in body.pop("faults", None) or []]
    after_s = body.pop("unkillable_after_s", 0.0)
    if not isinstance(after_s, int | float):
        raise ApiError(400, "unkillable_after_s is no number")
    for name, value in body.items():
        if name not in _LIES or not isinstance(value, _LIES[name]):  # type: ignore[arg-type]
            raise ApiError(400, f"{name} is unknown or has the wrong type")
    node.faults.clear()
    node.faults.active = faults
    node.faults.unkillable_after_s = float(after_s)
    for name, value in body.items():
        setattr(node.faults, name, value)
    return Answer(204)


def _read_fault(entry: Any) -> Fault:
    if not isinstance(entry, dict) or not entry.keys() <= _FAULT_FIELDS:
        raise ApiError(400, f"a fault has only {', '.join(sorted(_FAULT_FIELDS))}: {entry}")
    try:
        fault = Fault(**entry)
        fault.check()
    except (TypeError, ValueError) as error:
        raise ApiError(400, str(error)) from error
    return fault


async def patch_node(node: VirtualNode, request: Request, key: str) -> Answer:
    """Change settings and cards; see ``settings``."""
    try:
        settings.apply_settings(node, request.json)
    except ValueError as error:
        raise ApiError(400, str(error)) from error
    return Answer(204)


async def restart(node: VirtualNode, request: Request, key: str) -> Answer:
    """``{"down_s": 2.5, "lost": ["GPU-..."]}``: the host reboots, without some of its cards."""
    body = request.json if request.body else {}
    down_s, lost = body.pop("down_s", 0), body.pop("lost", [])
    if body or not isinstance(down_s, int | float) or not isinstance(lost, list):
        raise ApiError(400, "a restart has down_s (seconds) and lost (a list of card UUIDs)")
    node.restart(down_s=down_s, lost=[str(each) for each in lost])
    return Answer(204)


async def end_container(node: VirtualNode, request: Request, key: str) -> Answer:
    """``{"exit_code": 1, "oom": false}``: the container's process ends by itself, now."""
    container = node.find(key)
    body = request.json if request.body else {}
    oom = bool(body.get("oom"))
    exit_code = body.get("exit_code", KILLED if oom else 1)
    if not isinstance(exit_code, int) or not 0 <= exit_code <= 255:
        raise ApiError(400, "exit_code must be from 0 to 255")
    if not container.running:
        raise ApiError(409, f"container {container.id} is not running")
    node.kill(container, exit_code, oom=oom, by_hand=False)
    return Answer(204)

"""The paths of volumes."""

from __future__ import annotations

from engines.virtual.json_shape import VOLUME, check_shape
from engines.virtual.messages import Answer, Request, answer_json, has_labels, read_filters
from engines.virtual.node import VirtualNode

_FILTERS = frozenset({"label", "name", "driver", "dangling"})


async def volume_create(node: VirtualNode, request: Request, key: str) -> Answer:
    body = request.json
    check_shape(body, VOLUME)
    made = node.volumes.ensure(body.get("Name") or "", body.get("Labels") or {}, node.now())
    node.changed()
    return answer_json(made, 201)


async def volume_list(node: VirtualNode, request: Request, key: str) -> Answer:
    filters = read_filters(request, _FILTERS)
    found = [
        record
        for name, record in node.volumes.records.items()
        if has_labels(record["Labels"], filters.get("label", []))
        and ("name" not in filters or any(part in name for part in filters["name"]))
        and ("dangling" not in filters or (filters["dangling"][0] in ("1", "true")) != bool(node.volume_users(name)))
    ]
    return answer_json({"Volumes": found, "Warnings": None})


async def volume_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.volumes.find(key))


async def volume_delete(node: VirtualNode, request: Request, key: str) -> Answer:
    node.volumes.remove(key, node.volume_users(key))
    node.changed()
    return Answer(204)

"""What a virtual node keeps over a restart of its process: containers, images, volumes."""

from __future__ import annotations

import json
from pathlib import Path

from engines.virtual.node import Container, VirtualNode

_FIELDS = ("id", "name", "config", "created", "status", "exit_code", "started_at", "finished_at")


def save(node: VirtualNode, path: Path) -> None:
    """Write the state; a reader finds the old file or the new one."""
    state = {
        "images": sorted(node.images),
        "volumes": node.volumes,
        "containers": [{name: getattr(each, name) for name in _FIELDS} for each in node.containers.values()],
    }
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.replace(path)


def load(node: VirtualNode, path: Path) -> None:
    """Bring the state back; what ran runs again. Must be called inside the event loop."""
    try:
        state = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return
    node.images = set(state["images"])
    node.volumes = state["volumes"]
    for fields in state["containers"]:
        container = Container(**fields)
        node.containers[container.id] = container
        if container.running:
            started = container.started_at
            container.status = "created"
            node.start(container)
            container.started_at = started

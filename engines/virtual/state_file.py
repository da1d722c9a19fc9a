"""What a virtual node keeps over a restart of its process: containers with their output, images, volumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engines.virtual.containers import Container
from engines.virtual.messages import ApiError
from engines.virtual.node import VirtualNode
from engines.virtual.volumes import Volumes

VERSION = 2

_FIELDS = (
    *("id", "name", "config", "created", "env", "image_name", "mounts", "status", "exit_code", "oom_killed", "error"),
    *("started_at", "finished_at", "restart_count", "stopped_by_hand"),
)


class StateUnreadable(Exception):
    """The file is there and is not what ``save`` writes."""


def save(node: VirtualNode, path: Path) -> None:
    """Write the state; a reader finds the old file or the new one."""
    state = {
        "version": VERSION,
        "images": sorted(node.images),
        "volumes": node.volumes.records,
        "anonymous_volumes": sorted(node.volumes.anonymous),
        "containers": [_kept(container) for container in node.containers.values()],
    }
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.replace(path)


def _kept(container: Container) -> dict[str, Any]:
    lines = [[line.at, line.stream, line.text.decode("latin-1")] for line in container.output.lines]
    return {name: getattr(container, name) for name in _FIELDS} | {"output": lines}


def load(node: VirtualNode, path: Path) -> None:
    """Bring the state back; what ran runs again, with the cards there are now.

    Must be called inside the event loop.

    Raises:
        StateUnreadable: and the node is as it was.
    """
    try:
        state = json.loads(path.read_text())
        if state["version"] != VERSION:
            raise StateUnreadable(f"{path} is of version {state['version']}, not {VERSION}")
        images, volumes = set(state["images"]), Volumes(state["volumes"], set(state["anonymous_volumes"]))
        containers = [_read(fields) for fields in state["containers"]]
    except FileNotFoundError:
        return
    except (ValueError, LookupError, TypeError) as error:
        raise StateUnreadable(f"{path}: {error!r}") from error
    node.images, node.volumes = images, volumes
    for container in containers:
        node.containers[container.id] = container
    for container in containers:
        if container.status in ("running", "restarting"):
            _run_again(node, container)


def _read(fields: dict[str, Any]) -> Container:
    container = Container(**{name: fields[name] for name in _FIELDS})
    for at, stream, text in fields["output"]:
        container.output.add(float(at), int(stream), text.encode("latin-1"))
    return container


def _run_again(node: VirtualNode, container: Container) -> None:
    started_at, container.status = container.started_at, "exited"
    try:
        node.start(container)
    except ApiError:
        # Its card has gone meanwhile, say: it has ended, with the reason in its record.
        container.finished_at = node.now()
        return
    container.started_at = started_at

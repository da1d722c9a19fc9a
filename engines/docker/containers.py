"""Creating, starting, looking at and removing containers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from engines.contract import (
    ContainerNotFound,
    ContainerPhase,
    ContainerStatus,
    EngineError,
    EngineTimeout,
    NameTaken,
)
from engines.docker import errors, records
from engines.docker.records import created_id
from engines.docker.transport import Answer, Transport, segment

_POLL_S = 0.1


def create(transport: Transport, name: str, config: Mapping[str, Any], *, timeout_s: float | None = None) -> str:
    """Create a container and return its id.

    Raises:
        NameTaken: by whomever.
        ImageUnavailable, RequestRefused, EngineTimeout, EngineUnreachable
    """
    answer = transport.call(
        "POST", "/containers/create", params={"name": name}, body=config, timeout_s=timeout_s, phase="create"
    )
    answer.raise_for_error("create")
    return answer.read_as(created_id)


def create_or_adopt(transport: Transport, name: str, config: Mapping[str, Any]) -> str:
    """Create a container; one of the same name and labels is ours from an earlier try.

    The engine may have created the container although the call timed out, so the name is
    derived from the attempt: a second try finds the first one's container.

    Raises:
        NameTaken: a container with other labels holds the name.
    """
    try:
        return create(transport, name, config)
    except NameTaken as taken:
        holder = inspect(transport, name)
        if not records.carries(holder.labels, config["Labels"]):
            raise
        if holder.phase in (ContainerPhase.REMOVING, ContainerPhase.DEAD):
            raise EngineError(f"the container named {name} is still being removed") from taken
        return holder.id


def start(transport: Transport, container: str, *, timeout_s: float | None = None) -> None:
    """Start a container; one that runs is left running (status 304)."""
    answer = transport.call("POST", f"/containers/{segment(container)}/start", timeout_s=timeout_s, phase="start")
    answer.raise_for_error("start")


def inspect(transport: Transport, container: str) -> ContainerStatus:
    """The engine's full record. Raises ContainerNotFound."""
    answer = transport.call("GET", f"/containers/{segment(container)}/json")
    answer.raise_for_error()
    return answer.read_as(records.from_inspect)


def list_by_labels(transport: Transport, labels: Mapping[str, str]) -> list[ContainerStatus]:
    """Containers in any phase that carry all ``labels``, in one call."""
    filters = json.dumps({"label": [f"{key}={value}" for key, value in labels.items()]})
    answer = transport.call("GET", "/containers/json", params={"all": "1", "filters": filters})
    answer.raise_for_error()
    return answer.read_as(lambda entries: [records.from_list(entry) for entry in entries])


def remove(transport: Transport, container: str, *, grace_s: float) -> None:
    """Stop with ``grace_s`` seconds to end by itself, then kill and remove.

    Returns when the engine has confirmed the absence: it removed the container just now
    (204), or it knows none (404).

    Raises:
        EngineError: the absence is not confirmed.
    """
    if grace_s > 0 and _stop(transport, container, grace_s=math.ceil(grace_s)):
        return
    discard(transport, container)


def discard(transport: Transport, container: str) -> None:
    """Kill and remove at once, with the image's anonymous volumes; confirmed as in ``remove``."""
    deadline = time.monotonic() + transport.address.timeout_s
    try:
        answer = transport.call("DELETE", f"/containers/{segment(container)}", params={"force": "1", "v": "1"})
    except EngineTimeout as timeout:
        _await_absence(transport, container, deadline=deadline, error=timeout)
        return
    if answer.ok or _knows_none(answer):
        return
    error = errors.from_answer(answer.status, answer.message)
    # 409: somebody else's removal is in progress; it ends soon, or never.
    _await_absence(transport, container, deadline=deadline if answer.status == 409 else 0, error=error)


def _stop(transport: Transport, container: str, *, grace_s: int) -> bool:
    """Ask it to stop; True when the engine knows no such container.

    Whatever else comes back, the forced removal that follows settles it.
    """
    try:
        answer = transport.call(
            "POST",
            f"/containers/{segment(container)}/stop",
            params={"t": str(grace_s)},
            timeout_s=grace_s + transport.address.timeout_s,
        )
    except EngineTimeout:
        return False
    return _knows_none(answer)


def _knows_none(answer: Answer) -> bool:
    return isinstance(errors.from_answer(answer.status, answer.message), ContainerNotFound) if not answer.ok else False


def _await_absence(transport: Transport, container: str, *, deadline: float, error: EngineError) -> None:
    """Look at least once, then until ``deadline``; raise ``error`` if it is still there."""
    while True:
        try:
            inspect(transport, container)
        except ContainerNotFound:
            return
        if time.monotonic() > deadline:
            raise error
        time.sleep(_POLL_S)

"""The paths of containers, from create to delete."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from engines.virtual.containers import KILLED, Container, inspect_record, list_record
from engines.virtual.messages import Answer, ApiError, Request, answer_json, has_labels, read_filters
from engines.virtual.node import VirtualNode
from engines.virtual.output import Line, frame
from engines.virtual.programs import STDERR, STDOUT

UNKILLABLE = "tried to kill container, but did not receive an exit event"
STATES = frozenset({"created", "restarting", "running", "removing", "paused", "exited", "dead"})

_FILTERS = frozenset({"label", "name", "id", "status", "ancestor", "volume", "health", "exited"})


async def container_create(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.create(request.query.get("name", ""), request.json)
    return answer_json({"Id": container.id, "Warnings": []}, 201)


async def container_list(node: VirtualNode, request: Request, key: str) -> Answer:
    filters = read_filters(request, _FILTERS)
    for word in filters.get("status", []):
        if word not in STATES:
            raise ApiError(400, f"invalid filter 'status={word}'")
    every = request.flag("all") or "status" in filters
    newest_first = reversed(node.containers.values())
    found = [each for each in newest_first if (every or each.running) and _matches(each, filters)]
    limit = request.query.get("limit", "")
    if limit.isdigit() and int(limit):
        found = found[: int(limit)]
    return answer_json([list_record(each, int(datetime.fromisoformat(each.created).timestamp())) for each in found])


def _matches(container: Container, filters: dict[str, list[str]]) -> bool:
    names = [name.removeprefix("/") for name in filters.get("name", [])]
    volumes = {mount.get("Name") for mount in container.mounts}
    return (
        has_labels(container.labels, filters.get("label", []))
        and (not names or any(name in container.name for name in names))
        and ("id" not in filters or any(container.id.startswith(each) for each in filters["id"]))
        and ("status" not in filters or container.status in filters["status"])
        and (
            "ancestor" not in filters
            or bool({container.image_name, container.config.get("Image")} & {*filters["ancestor"]})
        )
        and ("volume" not in filters or bool(volumes & {*filters["volume"]}))
        and ("health" not in filters or (container.health or "none") in filters["health"])
        and (
            "exited" not in filters or (container.status == "exited" and str(container.exit_code) in filters["exited"])
        )
    )


async def container_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(inspect_record(node.find(key), node.faults.record_shows))


async def container_start(node: VirtualNode, request: Request, key: str) -> Answer:
    return Answer(204 if node.start(node.find(key)) else 304)


async def container_stop(node: VirtualNode, request: Request, key: str) -> Answer:
    """The process ends at its stop signal at once; with a grace of 0 it is killed."""
    container = node.find(key)
    if container.status not in ("running", "restarting"):
        return Answer(304)
    await _refuse_if_unkillable(node, f"cannot stop container: {key}")
    word = request.query.get("signal") or container.config.get("StopSignal") or "SIGTERM"
    node.kill(container, KILLED if request.query.get("t") == "0" else 128 + _signal(word))
    return Answer(204)


async def container_kill(node: VirtualNode, request: Request, key: str) -> Answer:
    number = _signal(request.query.get("signal") or "SIGKILL")
    container = node.find(key)
    if not container.running:
        raise ApiError(409, f"cannot kill container: {key}: container {container.id} is not running")
    await _refuse_if_unkillable(node, f"cannot kill container: {key}")
    if number not in (signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGCONT):
        node.kill(container, 128 + number)
    return Answer(204)


def _signal(word: str) -> int:
    """The number of a signal called by number or name. Raises ApiError."""
    name = word.upper().removeprefix("SIG")
    if word.isdigit() and 1 <= int(word) <= 64:
        return int(word)
    if f"SIG{name}" in signal.Signals.__members__:
        return int(signal.Signals[f"SIG{name}"])
    raise ApiError(400, f"invalid signal: {word}")


async def container_rename(node: VirtualNode, request: Request, key: str) -> Answer:
    node.rename(node.find(key), request.query.get("name", ""))
    return Answer(204)


async def container_delete(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    if container.running and request.flag("force"):
        await _refuse_if_unkillable(node, f'cannot remove container "/{container.name}": could not kill container')
    node.remove(container, force=request.flag("force"), volumes=request.flag("v"))
    return Answer(204)


async def _refuse_if_unkillable(node: VirtualNode, what: str) -> None:
    if node.faults.unkillable:
        await asyncio.sleep(node.faults.unkillable_after_s)
        raise ApiError(500, f"{what}: {UNKILLABLE}")


async def container_wait(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    condition = request.query.get("condition") or "not-running"
    if condition not in ("not-running", "next-exit", "removed"):
        raise ApiError(400, f'invalid condition: "{condition}"')
    return Answer(stream=_end_of(container, condition, container.finished_at))


async def _end_of(container: Container, condition: str, finished_at: str) -> AsyncIterator[bytes]:
    while True:
        changed = container.changed
        gone = container.status == "removing"
        if gone or (condition == "not-running" and container.status not in ("running", "restarting")):
            break
        if condition == "next-exit" and not container.running and container.finished_at != finished_at:
            break
        await changed.wait()
    yield json.dumps({"StatusCode": container.exit_code}).encode() + b"\n"


async def container_logs(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    streams = {stream for name, stream in (("stdout", STDOUT), ("stderr", STDERR)) if request.flag(name)}
    if not streams:
        raise ApiError(400, "Bad parameters: you must choose at least one stream")
    since, until = _moment(request, "since"), _moment(request, "until")
    tail = request.query.get("tail", "all")

    def chosen(lines: list[Line]) -> list[Line]:
        return [
            each for each in lines if each.stream in streams and each.at >= since and (not until or each.at <= until)
        ]

    def written(line: Line) -> bytes:
        text = line.text
        if request.flag("timestamps"):
            at = datetime.fromtimestamp(line.at, UTC)
            text = at.strftime("%Y-%m-%dT%H:%M:%S.%f").encode() + b"000Z " + text
        return text if container.terminal else frame(line.stream, text)

    async def lines() -> AsyncIterator[bytes]:
        begin = chosen(container.output.after(0))
        seen = container.output.end
        for line in begin[max(0, len(begin) - int(tail)) :] if tail.isdigit() else begin:
            yield written(line)
        while request.flag("follow"):
            changed = container.changed
            news, seen = container.output.after(seen), container.output.end
            for line in chosen(news):
                yield written(line)
            if news:
                continue
            if container.status not in ("running", "restarting", "created"):
                return
            await changed.wait()

    kind = "raw" if container.terminal else "multiplexed"
    return Answer(stream=lines(), content_type=f"application/vnd.docker.{kind}-stream")


def _moment(request: Request, name: str) -> float:
    text = request.query.get(name) or "0"
    try:
        return float(text)
    except ValueError as error:
        raise ApiError(400, f'parsing time "{text}": invalid syntax') from error

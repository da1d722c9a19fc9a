"""The paths of the Engine API that are served, each a small function of a node and a request."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from engines.virtual.faults import Fault
from engines.virtual.node import TERMINATED, ApiError, Container, Exec, VirtualNode

STDOUT = 1


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body or b"{}")
        except ValueError as error:
            raise ApiError(400, "invalid JSON") from error
        if not isinstance(value, dict):
            raise ApiError(400, "invalid JSON: no object")
        return value

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "true")


@dataclass(slots=True)
class Answer:
    """``stream`` is sent as it comes: chunked, or ``raw`` until the connection closes."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    raw: bool = False
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[VirtualNode, Request, str], Awaitable[Answer]]


def answer_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


async def ping(node: VirtualNode, request: Request, key: str) -> Answer:
    return Answer(body=b"OK", content_type="text/plain", headers={"API-Version": node.api_version})


async def version(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.version())


async def info(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.info())


async def image_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.image(key))


async def image_list(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json([node.image(name) for name in sorted(node.images)])


async def image_pull(node: VirtualNode, request: Request, key: str) -> Answer:
    name, tag = request.query.get("fromImage", ""), request.query.get("tag", "")
    full = f"{name}@{tag}" if tag.startswith("sha256:") else f"{name}:{tag}" if tag else name

    async def progress() -> AsyncIterator[bytes]:
        yield json.dumps({"status": f"Pulling from {name}", "id": tag}).encode() + b"\r\n"
        await asyncio.sleep(node.pull_seconds)
        try:
            node.pull(full)
        except ApiError as error:
            yield json.dumps({"errorDetail": {"message": error.message}, "error": error.message}).encode() + b"\r\n"
            return
        yield json.dumps({"status": f"Status: Downloaded newer image for {full}"}).encode() + b"\r\n"

    return Answer(stream=progress())


async def container_create(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.create(request.query.get("name", ""), request.json)
    return answer_json({"Id": container.id, "Warnings": []}, 201)


async def container_list(node: VirtualNode, request: Request, key: str) -> Answer:
    filters = json.loads(request.query.get("filters") or "{}")
    return answer_json(node.listed(every=request.flag("all"), filters=filters))


async def container_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.inspected(node.find(key)))


async def container_start(node: VirtualNode, request: Request, key: str) -> Answer:
    return Answer(204 if node.start(node.find(key)) else 304)


async def container_stop(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    if not container.running:
        return Answer(304)
    await _refuse_if_unkillable(node)
    node.kill(container, TERMINATED)
    return Answer(204)


async def container_kill(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    if not container.running:
        raise ApiError(409, f"cannot kill container: {key}: container {container.id} is not running")
    await _refuse_if_unkillable(node)
    node.kill(container)
    return Answer(204)


async def container_delete(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    if container.running:
        await _refuse_if_unkillable(node)
    node.remove(container, force=request.flag("force"))
    return Answer(204)


async def _refuse_if_unkillable(node: VirtualNode) -> None:
    if node.faults.unkillable:
        raise ApiError(500, "cannot stop container: tried to kill container, but did not receive an exit event")


async def container_wait(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)

    async def end() -> AsyncIterator[bytes]:
        while container.running:
            await container.changed.wait()
        yield json.dumps({"StatusCode": container.exit_code}).encode()

    return Answer(stream=end())


async def container_logs(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    follow, since = request.flag("follow"), float(request.query.get("since") or 0)
    lines = [chunk for at, chunk in container.output if at >= since]
    tail = request.query.get("tail", "all")
    kept = b"".join(lines).splitlines(keepends=True)
    begin = kept if tail == "all" else kept[-int(tail) :] if tail.isdigit() and int(tail) else []
    seen = len(container.output)

    async def frames() -> AsyncIterator[bytes]:
        nonlocal seen
        for line in begin:
            yield frame(line)
        while follow:
            changed = container.changed
            while seen < len(container.output):
                yield frame(container.output[seen][1])
                seen += 1
            if not container.running:
                return
            await changed.wait()

    return Answer(stream=frames(), content_type="application/vnd.docker.multiplexed-stream")


async def exec_create(node: VirtualNode, request: Request, key: str) -> Answer:
    container = node.find(key)
    if not container.running:
        raise ApiError(409, f"Container {container.id} is not running")
    made = Exec(f"{len(node.execs):064x}", container, list(request.json.get("Cmd") or []))
    node.execs[made.id] = made
    return answer_json({"Id": made.id}, 201)


async def exec_start(node: VirtualNode, request: Request, key: str) -> Answer:
    made = _exec(node, key)
    container = made.container
    if not container.running:
        raise ApiError(409, f"Container {container.id} is not running")
    cards = node.cards_of(container)
    if made.command[:1] == ["nvidia-smi"] and cards is None:
        made.exit_code = 127
        raise ApiError(
            400,
            'OCI runtime exec failed: exec failed: unable to start container process: exec: "nvidia-smi": executable '
            "file not found in $PATH: unknown",
        )
    program = node.program(container, made.command, cards)

    async def frames() -> AsyncIterator[bytes]:
        made.running = True
        for step in program.run():
            if isinstance(step, bytes):
                yield frame(step)
            else:
                await asyncio.sleep(min(step, 3600))
        made.running, made.exit_code = False, program.exit_code

    return Answer(stream=frames(), raw=True, content_type="application/vnd.docker.multiplexed-stream")


async def exec_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    made = _exec(node, key)
    return answer_json(
        {"ID": made.id, "Running": made.running, "ExitCode": made.exit_code, "ContainerID": made.container.id}
    )


def _exec(node: VirtualNode, key: str) -> Exec:
    if key not in node.execs:
        raise ApiError(404, f"No such exec instance: {key}")
    return node.execs[key]


async def volume_create(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(node.create_volume(str(request.json.get("Name")), request.json.get("Labels") or {}), 201)


async def volume_list(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json({"Volumes": list(node.volumes.values()), "Warnings": None})


async def volume_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    if key not in node.volumes:
        raise ApiError(404, f"get {key}: no such volume")
    return answer_json(node.volumes[key])


async def volume_delete(node: VirtualNode, request: Request, key: str) -> Answer:
    node.remove_volume(key)
    return Answer(204)


async def control(node: VirtualNode, request: Request, key: str) -> Answer:
    """``PUT /_virtual/faults``: the whole list of faults; for tests in another process."""
    node.faults.clear()
    for fault in request.json.get("faults") or []:
        try:
            node.faults.add(Fault(**fault))
        except (TypeError, ValueError) as error:
            raise ApiError(400, str(error)) from error
    node.faults.unkillable = bool(request.json.get("unkillable"))
    node.faults.inside_shows = request.json.get("inside_shows")
    if request.json.get("restart"):
        node.restart()
    return Answer(204)


def frame(payload: bytes) -> bytes:
    """A chunk of output in the multiplexed format (Engine API, ContainerAttach)."""
    return struct.pack(">BxxxL", STDOUT, len(payload)) + payload


_KEY = r"(?P<key>[^/]+)"
_IMAGE = r"(?P<key>.+)"
ROUTES: list[tuple[str, re.Pattern[str], str, Handler]] = [
    (method, re.compile(pattern + r"\Z"), operation, handler)
    for method, pattern, operation, handler in (
        ("GET", "/_ping", "ping", ping),
        ("HEAD", "/_ping", "ping", ping),
        ("GET", "/version", "version", version),
        ("GET", "/info", "info", info),
        ("GET", "/images/json", "images", image_list),
        ("GET", f"/images/{_IMAGE}/json", "images", image_inspect),
        ("POST", "/images/create", "pull", image_pull),
        ("POST", "/containers/create", "create", container_create),
        ("GET", "/containers/json", "list", container_list),
        ("GET", f"/containers/{_KEY}/json", "inspect", container_inspect),
        ("POST", f"/containers/{_KEY}/start", "start", container_start),
        ("POST", f"/containers/{_KEY}/stop", "stop", container_stop),
        ("POST", f"/containers/{_KEY}/kill", "kill", container_kill),
        ("POST", f"/containers/{_KEY}/wait", "wait", container_wait),
        ("GET", f"/containers/{_KEY}/logs", "logs", container_logs),
        ("POST", f"/containers/{_KEY}/exec", "exec", exec_create),
        ("DELETE", f"/containers/{_KEY}", "delete", container_delete),
        ("POST", f"/exec/{_KEY}/start", "exec", exec_start),
        ("GET", f"/exec/{_KEY}/json", "exec", exec_inspect),
        ("POST", "/volumes/create", "volumes", volume_create),
        ("GET", "/volumes", "volumes", volume_list),
        ("GET", f"/volumes/{_KEY}", "volumes", volume_inspect),
        ("DELETE", f"/volumes/{_KEY}", "volumes", volume_delete),
        ("PUT", "/_virtual/faults", "control", control),
    )
]
_VERSIONED = re.compile(r"/v\d+\.\d+(?=/)")


def find_route(method: str, path: str) -> tuple[str, Handler, str]:
    """Operation, handler and key of a path, with or without the version in front."""
    plain = _VERSIONED.sub("", path, count=1)
    for route_method, pattern, operation, handler in ROUTES:
        if route_method == method and (match := pattern.match(plain)):
            return operation, handler, match.groupdict().get("key", "")
    raise ApiError(404, "page not found")


__all__ = ["Answer", "ApiError", "Container", "Request", "find_route"]

"""The paths of the Engine API that are served, and what serves each."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from engines.virtual import container_routes, control_routes, exec_routes, facts, image_routes, volume_routes
from engines.virtual.messages import Answer, ApiError, Request, answer_json
from engines.virtual.node import VirtualNode

Handler = Callable[[VirtualNode, Request, str], Awaitable[Answer]]

CONTROL = "control"
"""The operation of the paths below ``/_virtual/``: no fault ever touches it."""


async def ping(node: VirtualNode, request: Request, key: str) -> Answer:
    no_cache = {"Cache-Control": "no-cache, no-store, must-revalidate", "Pragma": "no-cache"}
    return Answer(body=b"OK", content_type="text/plain; charset=utf-8", headers=no_cache)


async def version(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(facts.version(node))


async def info(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json(facts.info(node))


_KEY = r"(?P<key>[^/]+)"
_IMAGE = r"(?P<key>.+)"
ROUTES: list[tuple[str, re.Pattern[str], str, Handler]] = [
    (method, re.compile(pattern + r"\Z"), operation, handler)
    for method, pattern, operation, handler in (
        ("GET", "/_ping", "ping", ping),
        ("HEAD", "/_ping", "ping", ping),
        ("GET", "/version", "version", version),
        ("GET", "/info", "info", info),
        ("GET", "/images/json", "images", image_routes.image_list),
        ("GET", f"/images/{_IMAGE}/json", "images", image_routes.image_inspect),
        ("POST", "/images/create", "pull", image_routes.image_pull),
        ("POST", "/containers/create", "create", container_routes.container_create),
        ("GET", "/containers/json", "list", container_routes.container_list),
        ("GET", f"/containers/{_KEY}/json", "inspect", container_routes.container_inspect),
        ("POST", f"/containers/{_KEY}/start", "start", container_routes.container_start),
        ("POST", f"/containers/{_KEY}/stop", "stop", container_routes.container_stop),
        ("POST", f"/containers/{_KEY}/kill", "kill", container_routes.container_kill),
        ("POST", f"/containers/{_KEY}/wait", "wait", container_routes.container_wait),
        ("POST", f"/containers/{_KEY}/rename", "rename", container_routes.container_rename),
        ("GET", f"/containers/{_KEY}/logs", "logs", container_routes.container_logs),
        ("POST", f"/containers/{_KEY}/exec", "exec", exec_routes.exec_create),
        ("DELETE", f"/containers/{_KEY}", "delete", container_routes.container_delete),
        ("POST", f"/exec/{_KEY}/start", "exec", exec_routes.exec_start),
        ("GET", f"/exec/{_KEY}/json", "exec", exec_routes.exec_inspect),
        ("POST", "/volumes/create", "volumes", volume_routes.volume_create),
        ("GET", "/volumes", "volumes", volume_routes.volume_list),
        ("GET", f"/volumes/{_KEY}", "volumes", volume_routes.volume_inspect),
        ("DELETE", f"/volumes/{_KEY}", "volumes", volume_routes.volume_delete),
        ("GET", "/_virtual/state", CONTROL, control_routes.read_state),
        ("PUT", "/_virtual/faults", CONTROL, control_routes.put_faults),
        ("PATCH", "/_virtual/node", CONTROL, control_routes.patch_node),
        ("POST", "/_virtual/restart", CONTROL, control_routes.restart),
        ("POST", f"/_virtual/containers/{_KEY}/end", CONTROL, control_routes.end_container),
    )
]
_VERSIONED = re.compile(r"/v(\d+)\.(\d+)(?=/)")


def find_route(node: VirtualNode, method: str, path: str) -> tuple[str, Handler, str]:
    """Operation, handler and key of a path, with or without the version in front.

    Raises:
        ApiError: no such path, or a version that the node does not speak.
    """
    asked = _VERSIONED.match(path)
    plain = path[asked.end() :] if asked else path
    for route_method, pattern, operation, handler in ROUTES:
        if route_method == method and (match := pattern.match(plain)):
            if asked:
                _check_version(node, (int(asked[1]), int(asked[2])))
            return operation, handler, match.groupdict().get("key", "")
    raise ApiError(404, "page not found")


def _check_version(node: VirtualNode, asked: tuple[int, int]) -> None:
    words = f"client version {asked[0]}.{asked[1]}"
    if asked > _numbers(node.api_version):
        raise ApiError(400, f"{words} is too new. Maximum supported API version is {node.api_version}")
    if asked < _numbers(node.min_api_version):
        raise ApiError(
            400,
            f"{words} is too old. Minimum supported API version is {node.min_api_version}, please upgrade your client "
            "to a newer version",
        )


def _numbers(version_text: str) -> tuple[int, int]:
    major, _, minor = version_text.partition(".")
    return int(major), int(minor)

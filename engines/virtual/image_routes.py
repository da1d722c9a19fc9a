"""The paths of images: whether one is there, and fetching it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from engines.virtual.images import image_entry, image_record
from engines.virtual.messages import Answer, ApiError, Request, answer_json
from engines.virtual.node import VirtualNode


async def image_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    name = node.image_named(key)
    return answer_json(image_record(name, node.image_env.get(name, {})))


async def image_list(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json([image_entry(name) for name in sorted(node.images)])


async def image_pull(node: VirtualNode, request: Request, key: str) -> Answer:
    """As dockerd: what the registry refuses at once has a status, what fails later is in the stream."""
    name, tag = request.query.get("fromImage", ""), request.query.get("tag", "")
    joint = "@" if tag.startswith("sha256:") else ":"
    full = node.check_pull(f"{name}{joint}{tag}" if tag else name, _login(request))
    fails_later = request.fault is not None and request.fault.in_stream
    return Answer(stream=_progress(node, full, request.fault.message if request.fault and fails_later else ""))


async def _progress(node: VirtualNode, full: str, failure: str) -> AsyncIterator[bytes]:
    known = full in node.images
    layer = full.encode().hex()[:12].ljust(12, "0")
    size = 4_000_000
    yield _line(status=f"Pulling from {full.partition('@')[0].rpartition(':')[0] or full}", id=full.rpartition(":")[2])
    if not known:
        yield _line(status="Pulling fs layer", progressDetail={}, id=layer)
        for part in (1, 2):
            await asyncio.sleep(node.pull_seconds / 2)
            yield _line(status="Downloading", progressDetail={"current": size * part // 2, "total": size}, id=layer)
    if failure:
        yield _line(errorDetail={"message": failure}, error=failure)
        return
    if not known:
        yield _line(status="Pull complete", progressDetail={}, id=layer)
        node.keep_image(full)
    word = "Image is up to date for" if known else "Downloaded newer image for"
    yield _line(status=f"Digest: {image_record(full, {})['RepoDigests'][0].partition('@')[2]}")
    yield _line(status=f"Status: {word} {full}")


def _line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\r\n"


def _login(request: Request) -> tuple[str, str] | None:
    header = request.headers.get("x-registry-auth", "")
    if not header:
        return None
    try:
        words = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
        return str(words.get("username", "")), str(words.get("password", ""))
    except (ValueError, AttributeError) as error:
        raise ApiError(400, f"invalid X-Registry-Auth header: {error}") from error

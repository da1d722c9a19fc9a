"""Images: whether one is there, and fetching it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

from engines.contract import RegistryLogin, RequestRefused
from engines.docker import errors
from engines.docker.streams import arrivals
from engines.docker.transport import Transport

PROGRESS_HEARTBEAT_S = 5.0


def present(transport: Transport, image: str) -> bool:
    """Whether the engine has ``image``."""
    answer = transport.call("GET", f"/images/{quote(image, safe='/:@')}/json")
    if answer.status == 404 and "no such image" in answer.message.lower():
        return False
    answer.raise_for_error()
    return True


def pull(
    transport: Transport,
    image: str,
    *,
    login: RegistryLogin | None,
    deadline_s: float,
    on_progress: Callable[[str], None] | None,
) -> None:
    """Fetch ``image`` with ``login`` and no other credentials.

    The login files of the control plane's own user are never sent: they would lend a
    tenant the platform's access.
    """
    repository, tag = split_reference(image)
    opening = transport.stream(
        "POST",
        "/images/create",
        params={"fromImage": repository, "tag": tag},
        headers={"X-Registry-Auth": registry_auth(login)} if login else None,
        timeout_s=deadline_s,
        phase="pull",
    )
    deadline = time.monotonic() + deadline_s
    unfinished = b""
    latest = ""
    parts = arrivals(transport, opening, heartbeat_s=PROGRESS_HEARTBEAT_S, deadline=deadline, phase="pull")
    with closing(parts):
        for part in parts:
            *lines, unfinished = (unfinished + part).split(b"\n")
            for line in filter(None, map(bytes.strip, lines)):
                latest = progress(line)
                if on_progress is not None:
                    on_progress(latest)
            if not part and on_progress is not None:
                on_progress(latest)
    if unfinished.strip():
        progress(unfinished)


def progress(line: bytes) -> str:
    """One line of the pull's stream, as a sentence.

    Raises:
        ImageUnavailable, EngineError: the line reports the failure of the pull.
    """
    try:
        event: Mapping[str, Any] = json.loads(line)
    except ValueError:
        return ""
    if message := event.get("error") or (event.get("errorDetail") or {}).get("message"):
        raise errors.from_pull_stream(str(message))
    words = (event.get("id"), event.get("status"), event.get("progress"))
    return " ".join(str(word) for word in words if word)


def split_reference(image: str) -> tuple[str, str]:
    """Repository and tag or digest. Without either the tag is ``latest``: else all would be pulled.

    Raises:
        RequestRefused: an empty reference.
    """
    if not image:
        raise RequestRefused("an empty image reference")
    repository, at, digest = image.partition("@")
    if at:
        return repository, digest
    head, colon, tag = image.rpartition(":")
    # A colon before a slash belongs to the registry's port.
    if colon and "/" not in tag:
        return head, tag
    return image, "latest"


def registry_auth(login: RegistryLogin) -> str:
    """The ``X-Registry-Auth`` header: base64url of JSON (Engine API, "Authentication")."""
    words = {"username": login.username, "password": login.password, "serveraddress": login.server}
    return base64.urlsafe_b64encode(json.dumps(words).encode()).decode()

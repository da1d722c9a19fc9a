"""Image references, and the engine's record of an image. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from engines.virtual.messages import ApiError

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::\d+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


def familiar(reference: str) -> str:
    """The reference as the engine lists it: with a tag (``latest``) or a digest, without the default registry.

    Raises:
        ApiError: no image can be called so.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        lower = _REFERENCE.fullmatch(reference.lower())
        raise ApiError(400, "invalid reference format" + (": repository name must be lowercase" if lower else ""))
    name = match["name"].removeprefix("docker.io/").removeprefix("library/")
    if match["digest"]:
        return f"{name}@{match['digest']}"
    return f"{name}:{match['tag'] or 'latest'}"


def image_id(name: str) -> str:
    return "sha256:" + hashlib.sha256(name.encode()).hexdigest()


def image_record(name: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The answer of ``GET /images/{name}/json``."""
    repository = name.partition("@")[0].rpartition(":")[0] or name
    digest = name.partition("@")[2] or image_id(f"manifest of {name}")
    return {
        "Id": image_id(name),
        "RepoTags": [] if "@" in name else [name],
        "RepoDigests": [f"{repository}@{digest}"],
        "Created": "2026-01-01T00:00:00Z",
        "Config": {"Env": [f"{key}={value}" for key, value in env.items()], "Cmd": None, "Labels": None},
        "Architecture": "amd64",
        "Os": "linux",
        "Size": 4_000_000,
    }


def image_entry(name: str) -> dict[str, Any]:
    """One entry of ``GET /images/json``."""
    record = image_record(name, {})
    kept = {key: record[key] for key in ("Id", "RepoTags", "RepoDigests", "Size")}
    return kept | {"Created": 1767225600, "Containers": -1, "Labels": None, "ParentId": "", "SharedSize": -1}

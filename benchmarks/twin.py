"""The container that bare docker-py makes for comparison: the platform's own, setting for setting."""

from __future__ import annotations

from typing import Any

import docker


def config_of(client: docker.APIClient, original: str) -> dict[str, Any]:
    """What creates a container like ``original``; without its labels, so the platform leaves it alone."""
    record = client.inspect_container(original)
    config = {key: record["Config"][key] for key in ("Image", "Cmd", "Env", "User")}
    return config | {"HostConfig": record["HostConfig"], "Labels": {}}


def create(client: docker.APIClient, config: dict[str, Any], name: str) -> str:
    """The id of a new container."""
    made: dict[str, Any] = client.create_container_from_config(config, name)  # type: ignore[no-untyped-call]
    return str(made["Id"])

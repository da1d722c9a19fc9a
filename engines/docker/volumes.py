"""Named volumes."""

from __future__ import annotations

from collections.abc import Mapping

from engines.docker.container_config import check_volume_name
from engines.docker.transport import Transport, segment


def ensure(transport: Transport, name: str, labels: Mapping[str, str]) -> None:
    """Create the volume; one that is there is left as it is (the engine's own rule)."""
    check_volume_name(name)
    transport.call("POST", "/volumes/create", body={"Name": name, "Labels": dict(labels)}).raise_for_error()


def remove(transport: Transport, name: str) -> None:
    """Remove the volume; absent is fine. Raises RequestRefused while a container uses it."""
    answer = transport.call("DELETE", f"/volumes/{segment(name)}")
    if answer.status == 404 and "no such volume" in answer.message.lower():
        return
    answer.raise_for_error()

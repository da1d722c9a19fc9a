"""Host ports of published container ports."""

from __future__ import annotations

from collections.abc import Iterable

from engines.virtual.containers import Container
from engines.virtual.messages import ApiError

FIRST, LAST = 32768, 65535


def publish(container: Container, others: Iterable[Container]) -> dict[str, list[dict[str, str]]]:
    """A host port for each binding of ``container``: the one asked for, else the next free one.

    Raises:
        ApiError: a running container has the port that was asked for.
    """
    taken = {
        int(binding["HostPort"])
        for other in others
        if other.running
        for bindings in other.ports.values()
        for binding in bindings
    }
    published: dict[str, list[dict[str, str]]] = {}
    for port, bindings in (container.host_config.get("PortBindings") or {}).items():
        for binding in bindings or [{}]:
            wanted = int(binding.get("HostPort") or 0)
            if wanted in taken:
                raise ApiError(
                    500,
                    f"driver failed programming external connectivity on endpoint {container.name}: Bind for "
                    f"0.0.0.0:{wanted} failed: port is already allocated",
                )
            chosen = wanted or next(free for free in range(FIRST, LAST + 1) if free not in taken)
            taken.add(chosen)
            address = binding.get("HostIp") or "0.0.0.0"  # noqa: S104 - as dockerd reports it
            published.setdefault(port, []).append({"HostIp": address, "HostPort": str(chosen)})
    return published

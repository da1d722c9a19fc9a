"""Which cards a starting container is given: dockerd's NVIDIA driver and the toolkit's hook. Pure.

As in dockerd, a device request becomes the variables ``NVIDIA_VISIBLE_DEVICES`` and
``NVIDIA_DRIVER_CAPABILITIES``, which go over the container's own; the hook reads only those.
With ``nvidia`` as the container's runtime the hook runs without a request, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engines.virtual.cards import Card, unknown_ids, visible
from engines.virtual.messages import ApiError

DEVICES = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
DRIVER_CAPABILITIES = ("compute", "compat32", "graphics", "utility", "video", "display")
CDI_KIND = "nvidia.com/gpu="

_DRIVER_SET = frozenset({"gpu", "nvidia", *DRIVER_CAPABILITIES})


class GpuHost(Protocol):
    """What of a node decides here."""

    @property
    def cards(self) -> Sequence[Card]: ...
    @property
    def toolkit(self) -> bool: ...
    @property
    def default_runtime(self) -> str: ...
    @property
    def driver_failure(self) -> str: ...
    @property
    def cdi(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Attachment:
    """What the hook put into a container: device ids, the tool, and variables."""

    ids: tuple[str, ...] = ()
    has_smi: bool = False
    env: tuple[tuple[str, str], ...] = ()


def attach(host: GpuHost, host_config: Mapping[str, Any], env: Mapping[str, str]) -> Attachment:
    """The attachment of a container that starts now.

    Raises:
        ApiError: no driver, a driver that does not answer, an unknown device (500 each: for
            dockerd a spec that cannot be made is its own failure, not the request's).
    """
    granted: dict[str, str] = {}
    cdi_names: list[str] = []
    by_hook = False
    for request in host_config.get("DeviceRequests") or []:
        if request.get("Driver") == "cdi":
            cdi_names += _cdi_request(host, request)
        else:
            by_hook = True
            granted |= _driver_request(host, request)
    runtime = host_config.get("Runtime") or host.default_runtime
    by_hook = by_hook or (runtime == "nvidia" and host.toolkit)
    ids = _injected(host, cdi_names)
    has_smi = bool(ids)
    if by_hook:
        seen = {**env, **granted}
        hooked = _hook(host, seen.get(DEVICES, ""))
        if hooked is not None:
            ids += hooked
            capabilities = (seen.get(CAPABILITIES) or "utility,compute").split(",")
            has_smi = has_smi or "utility" in capabilities or "all" in capabilities
    return Attachment(tuple(dict.fromkeys(ids)), has_smi, tuple(granted.items()))


def _driver_request(host: GpuHost, request: Mapping[str, Any]) -> dict[str, str]:
    """The variables that dockerd's driver adds for one request."""
    driver = request.get("Driver") or ""
    groups: list[list[str]] = request.get("Capabilities") or []
    selected = next((group for group in groups if set(group) <= _DRIVER_SET), None)
    if not host.toolkit or driver not in ("", "nvidia") or selected is None:
        words = " ".join(f"[{' '.join(group)}]" for group in groups)
        raise ApiError(500, f'could not select device driver "{driver}" with capabilities: [{words}]')
    ids, count = request.get("DeviceIDs") or [], request.get("Count") or 0
    if ids and count:
        raise ApiError(500, "cannot set both Count and DeviceIDs on device request")
    added: dict[str, str] = {}
    if ids or count:
        # One index too many says as much as all of them, however large the number.
        first = range(min(count, len(host.cards) + 1))
        added[DEVICES] = ",".join(ids) if ids else "all" if count < 0 else ",".join(map(str, first))
    driver_words = [word for word in selected if word in DRIVER_CAPABILITIES]
    if driver_words:
        added[CAPABILITIES] = ",".join(driver_words)
    return added


def _cdi_request(host: GpuHost, request: Mapping[str, Any]) -> list[str]:
    if not host.cdi:
        raise ApiError(500, 'could not select device driver "cdi" with capabilities: []')
    return [str(name) for name in request.get("DeviceIDs") or []]


def cdi_names(host: GpuHost) -> list[str]:
    """The names that the node's CDI specs list: each card by UUID and by index, and ``all``."""
    if not host.cdi:
        return []
    ids = [each for card in host.cards for each in card.ids]
    return [f"{CDI_KIND}{each}" for each in [*map(str, range(len(host.cards))), *ids, "all"]]


def _injected(host: GpuHost, names: Sequence[str]) -> list[str]:
    known = set(cdi_names(host))
    missing = [name for name in names if name not in known]
    if missing:
        raise ApiError(500, f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}")
    return _resolved(host.cards, [name.removeprefix(CDI_KIND) for name in names])


def _hook(host: GpuHost, value: str) -> list[str] | None:
    """The device ids behind the variable's value; None where the hook leaves the container alone."""
    value = value.strip()
    if value in ("", "void"):
        return None
    if host.driver_failure:
        raise ApiError(500, hook_failed(host.driver_failure))
    if value == "none":
        # The driver's files and tools without any card.
        return []
    wanted = [each.strip() for each in value.split(",") if each.strip()]
    unknown = [] if wanted == ["all"] else unknown_ids(host.cards, wanted)
    if unknown:
        raise ApiError(500, hook_failed(f"device error: {unknown[0]}: unknown device"))
    return _resolved(host.cards, wanted)


def _resolved(cards: Sequence[Card], wanted: Sequence[str]) -> list[str]:
    """As UUIDs: a container keeps its cards when others vanish and the indexes shift."""
    ids: list[str] = []
    for each in wanted:
        for card in visible(cards, [each]):
            by_card = each in ("all", card.uuid) or each.isdigit()
            ids += [card.uuid] if by_card else [instance.uuid for instance in card.mig]
    return ids


def hook_failed(words: str) -> str:
    """dockerd's text for a start that the toolkit refused."""
    return (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
        "failed: unable to start container process: error during container init: error running prestart hook #0: exit "
        f"status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: {words}: unknown"
    )

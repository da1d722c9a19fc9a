"""Which cards a container asks for, in the engine's words. Pure.

Cards are named one by one. The engine's ``Count`` is not in these types: two containers
that each ask for "one" both get the first card.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from engines.contract import DeviceRefused, GpuAttachment

AttachMode = Literal["device_request", "cdi"]
"""How cards are attached: through dockerd's NVIDIA driver, or by CDI device names."""

CDI_KIND = "nvidia.com/gpu"
NVIDIA_CAPABILITIES = frozenset({"compute", "compat32", "display", "graphics", "utility", "video"})
"""What dockerd's NVIDIA driver knows; with any other word it finds no driver at all."""

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
DRIVER_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"


class DeviceRequest(TypedDict, total=False):
    """HostConfig.DeviceRequests[] of the Engine API, without ``Count``."""

    Driver: str
    DeviceIDs: list[str]
    Capabilities: list[list[str]]


def device_requests(gpu: GpuAttachment | None, *, attach_mode: AttachMode = "device_request") -> list[DeviceRequest]:
    """Ask for exactly the cards of ``gpu``; nothing at all without one.

    Raises:
        ValueError: a driver capability that no engine knows.
    """
    if gpu is None:
        return []
    capabilities = driver_capabilities(gpu)
    if attach_mode == "cdi":
        return [{"Driver": "cdi", "DeviceIDs": [cdi_name(uuid) for uuid in gpu.device_uuids]}]
    return [
        {
            "Driver": "nvidia",
            "DeviceIDs": list(gpu.device_uuids),
            # Without ``gpu`` the engine's answer is "could not select device driver".
            "Capabilities": [["gpu", *capabilities]],
        }
    ]


def every_card_request(attach_mode: AttachMode = "device_request") -> list[dict[str, object]]:
    """Ask for all cards of the node: for the platform's own probe only."""
    if attach_mode == "cdi":
        return [{"Driver": "cdi", "DeviceIDs": [cdi_name("all")]}]
    return [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "utility"]]}]


def driver_capabilities(gpu: GpuAttachment) -> list[str]:
    """The driver capabilities of ``gpu``, sorted; ``utility`` always, for the check inside."""
    unknown = gpu.capabilities - NVIDIA_CAPABILITIES
    if unknown:
        raise ValueError(f"unknown NVIDIA driver capabilities: {', '.join(sorted(unknown))}")
    return sorted(gpu.capabilities | {"utility"})


def gpu_environment(gpu: GpuAttachment | None) -> dict[str, str]:
    """The variables that decide what the NVIDIA runtime shows. Always set, GPU or not.

    Where ``nvidia`` is the default runtime, or the image carries
    ``NVIDIA_VISIBLE_DEVICES=all``, a container without these would get every card.
    ``void`` is the toolkit's word for "leave this container alone".
    """
    if gpu is None:
        return {VISIBLE_DEVICES: "void", DRIVER_CAPABILITIES: "utility"}
    return {
        VISIBLE_DEVICES: ",".join(gpu.device_uuids),
        DRIVER_CAPABILITIES: ",".join(driver_capabilities(gpu)),
    }


def cdi_name(device: str) -> str:
    """The qualified CDI name of a device id."""
    return f"{CDI_KIND}={device}"


def check_cdi_names(gpu: GpuAttachment, discovered: Iterable[str]) -> None:
    """Refuse cards that the engine's CDI specs do not list.

    Engines before API 1.50 do not tell what they discovered. That is unknown, not
    "none": nothing is refused then, and the engine itself decides at start.

    Raises:
        DeviceRefused: naming the missing cards, before anything was created.
    """
    known = set(discovered)
    missing = [uuid for uuid in gpu.device_uuids if cdi_name(uuid) not in known]
    if known and missing:
        raise DeviceRefused(
            f"unresolvable CDI devices {', '.join(map(cdi_name, missing))}; the engine's CDI specs list: "
            f"{', '.join(sorted(known))}"
        )

"""What an engine's facts mean for handing out GPUs: lights with a sentence and a fix. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from engines.contract import EngineFacts

CLOCK_SKEW_SECONDS = 30
CDI_KIND = "nvidia.com/gpu"
LISTS_CDI_SINCE = (1, 50)
"""Engine API version that tells which CDI devices were discovered; older ones say nothing."""

INSTALL_TOOLKIT = (
    "Install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker', restart Docker, "
    "then rescan."
)
MAKE_CDI_SPECIFICATION = (
    "Install nvidia-container-toolkit, run 'nvidia-ctk cdi generate --device-name-strategy=uuid "
    "--output=/etc/cdi/nvidia.yaml', restart Docker, then rescan."
)


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Light:
    """``fix`` is what to do on the host; empty when all is well."""

    code: str
    status: Status
    sentence: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Preflight:
    lights: tuple[Light, ...]
    toolkit: bool
    """Containers can be given cards."""
    isolates: bool
    """A container sees only the cards it is given."""


def examine(
    facts: EngineFacts,
    *,
    runtime_name: str,
    attach_mode: Literal["device_request", "cdi"],
    toolkit_version: str,
    toolkit_floor: str,
    now: datetime,
) -> Preflight:
    """Judge a node by its engine's facts.

    Args:
        runtime_name: the NVIDIA runtime to look for when cards are attached by device request.
        toolkit_version: as the operator or their configuration management states it, since no
            engine tells; "" is unknown.
        toolkit_floor: the oldest toolkit without a known way out of the container; "" checks nothing.
        now: this server's clock, with a time zone.
    """
    cdi = attach_mode == "cdi"
    toolkit = _cdi_light(facts) if cdi else _runtime_light(facts, runtime_name)
    isolates = not _is_desktop(facts)
    lights = [
        Light("reachable", Status.OK, "The engine answers."),
        _engine_light(facts),
        toolkit,
        _default_runtime_light(facts, runtime_name),
    ]
    if not isolates:
        lights.append(_NO_ISOLATION)
    lights += _installation_lights(facts, cdi)
    lights += _toolkit_version_lights(toolkit_version, toolkit_floor)
    lights += _clock_lights(facts, now)
    return Preflight(tuple(lights), toolkit.status is not Status.BAD, isolates)


def unreachable(sentence: str, fix: str) -> Light:
    """The light of an engine that does not answer; what it said before is kept beside it."""
    return Light("reachable", Status.BAD, sentence, fix)


def _engine_light(facts: EngineFacts) -> Light:
    return Light(
        "engine",
        Status.OK,
        f"Docker Engine {facts.engine_version or 'of unknown version'}, API {facts.api_version or 'unknown'} "
        f"(oldest it accepts: {facts.min_api_version or 'unknown'}).",
    )


def _runtime_light(facts: EngineFacts, runtime_name: str) -> Light:
    if runtime_name in facts.runtimes:
        return Light("toolkit", Status.OK, f"The runtime {runtime_name} is registered: containers can be given cards.")
    known = ", ".join(facts.runtimes) or "none"
    return Light(
        "toolkit",
        Status.BAD,
        f"The engine has no runtime called {runtime_name} (it has: {known}), so containers get no cards.",
        INSTALL_TOOLKIT,
    )


def _cdi_light(facts: EngineFacts) -> Light:
    names = [name for name in facts.cdi_devices if name.startswith(f"{CDI_KIND}=")]
    if any(_names_a_card(name) for name in names):
        return Light("toolkit", Status.OK, f"CDI lists {len(names)} {CDI_KIND} names: containers can be given cards.")
    if names:
        return Light(
            "toolkit",
            Status.BAD,
            f"CDI lists {', '.join(names[:8])} and no card by its UUID, so no single card can be attached.",
            MAKE_CDI_SPECIFICATION,
        )
    if facts.cdi_spec_dirs and _version(facts.api_version) < LISTS_CDI_SINCE:
        return Light(
            "toolkit",
            Status.OK,
            f"CDI is on ({', '.join(facts.cdi_spec_dirs)}); which devices it lists, this engine does not tell.",
        )
    return Light("toolkit", Status.BAD, f"The engine knows no CDI device of {CDI_KIND}.", MAKE_CDI_SPECIFICATION)


def _names_a_card(name: str) -> bool:
    return name.removeprefix(f"{CDI_KIND}=").startswith(("GPU-", "MIG-"))


def _default_runtime_light(facts: EngineFacts, runtime_name: str) -> Light:
    if facts.default_runtime != runtime_name:
        return Light("default_runtime", Status.OK, f"The default runtime is {facts.default_runtime or 'not told'}.")
    return Light(
        "default_runtime",
        Status.BAD,
        f"The default runtime is {runtime_name}: a container that asks for no GPU may see every card. Miabi shuts its "
        "own containers off (void); containers started by others here are not.",
        "Set the default runtime back to runc in the engine's daemon.json and restart Docker.",
    )


_NO_ISOLATION = Light(
    "isolation",
    Status.BAD,
    "WSL2 or Docker Desktop: every card is visible to every container, whatever was granted.",
    "Use a Linux host with a native Docker Engine for GPUs that teams share.",
)


def _is_desktop(facts: EngineFacts) -> bool:
    """WSL2 and Docker Desktop: the vendor says that cards cannot be filtered there."""
    kernel = facts.kernel_version.lower()
    return "docker desktop" in facts.operating_system.lower() or "microsoft" in kernel or "wsl" in kernel


def _installation_lights(facts: EngineFacts, cdi: bool) -> Iterator[Light]:
    if any("rootless" in option for option in facts.security_options):
        if cdi:
            yield Light("rootless", Status.OK, "The engine runs rootless, and cards are attached by CDI.")
        else:
            yield Light(
                "rootless",
                Status.WARN,
                "The engine runs rootless: device cgroups cannot be set, and attaching cards by device request fails.",
                "Attach by CDI, or use a rootful engine.",
            )
    if facts.data_root.startswith("/var/snap/"):
        yield Light(
            "snap",
            Status.WARN,
            "Docker is installed as a snap, which hides the host's NVIDIA toolkit from the engine.",
            "Remove the snap and install Docker Engine from your distribution's packages.",
        )


def _toolkit_version_lights(version: str, floor: str) -> Iterator[Light]:
    if not version or not floor:
        return
    if not _version(version):
        yield Light(
            "toolkit_version",
            Status.WARN,
            f"The toolkit's version is stated as {version}, which is no version.",
            "State it as in 'nvidia-ctk --version', for example 1.17.8.",
        )
    elif _version(version) < _version(floor):
        yield Light(
            "toolkit_version",
            Status.WARN,
            f"NVIDIA Container Toolkit {version} is older than {floor}: a crafted image may break out of a container.",
            f"Upgrade nvidia-container-toolkit to {floor} or newer and restart Docker.",
        )
    else:
        yield Light("toolkit_version", Status.OK, f"NVIDIA Container Toolkit {version}.")


def _clock_lights(facts: EngineFacts, now: datetime) -> Iterator[Light]:
    if facts.system_time is None:
        return
    skew = abs((now - facts.system_time).total_seconds())
    if skew > CLOCK_SKEW_SECONDS:
        yield Light(
            "clock",
            Status.WARN,
            f"The node's clock is {skew:.0f} s off.",
            "Set up time synchronisation (chrony or systemd-timesyncd) on the host.",
        )
    else:
        yield Light("clock", Status.OK, "The node's clock agrees.")


def _version(text: str) -> tuple[int, ...]:
    """``1.17.8-1`` as (1, 17, 8) and ``1.18.0`` as (1, 18); () when it does not begin with a number."""
    match = re.match(r"v?(\d{1,6}(?:\.\d{1,6})*)", text.strip(), re.ASCII)
    if match is None:
        return ()
    parts = [int(part) for part in match[1].split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)

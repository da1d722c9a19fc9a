"""What an engine's facts mean for handing out GPUs: lights with a sentence and a fix. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engines.contract import EngineFacts

CLOCK_SKEW_SECONDS = 30


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Light:
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


def examine(facts: EngineFacts, *, runtime: str, cdi: bool, now: datetime) -> Preflight:
    """Judge a node by its engine's facts.

    ``runtime`` is the name of the NVIDIA runtime to look for; ``cdi`` says that cards are
    attached by CDI names instead.
    """
    toolkit = bool(facts.cdi_devices or facts.cdi_spec_dirs) if cdi else runtime in facts.runtimes
    isolates = not _is_desktop(facts)
    return Preflight(tuple(_lights(facts, runtime, cdi, toolkit, isolates, now)), toolkit, isolates)


def _is_desktop(facts: EngineFacts) -> bool:
    """WSL2 and Docker Desktop: the vendor says that cards cannot be filtered there."""
    kernel = facts.kernel_version.lower()
    return "docker desktop" in facts.operating_system.lower() or "microsoft" in kernel or "wsl" in kernel


def _lights(
    facts: EngineFacts, runtime: str, cdi: bool, toolkit: bool, isolates: bool, now: datetime
) -> Iterator[Light]:
    yield Light(
        "engine",
        Status.OK,
        f"Docker Engine {facts.engine_version}, API {facts.api_version} (oldest it accepts: {facts.min_api_version}).",
    )
    if toolkit:
        how = "CDI is configured" if cdi else f"The runtime {runtime} is registered"
        yield Light("toolkit", Status.OK, f"{how}: containers can be given cards.")
    else:
        known = ", ".join(facts.runtimes) or "none"
        yield Light(
            "toolkit",
            Status.BAD,
            "No CDI specification is known to the engine."
            if cdi
            else f"The engine has no runtime called {runtime} (it has: {known}), so containers get no cards.",
            "Install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker', restart Docker, "
            "then rescan.",
        )
    if facts.default_runtime == runtime:
        yield Light(
            "default_runtime",
            Status.BAD,
            f"The default runtime is {runtime}: a container that asks for no GPU may see every card. Miabi shuts its "
            "own containers off (void); containers started by others here are not.",
            "Set the default runtime back to runc in the engine's daemon.json and restart Docker.",
        )
    else:
        yield Light("default_runtime", Status.OK, f"The default runtime is {facts.default_runtime}.")
    if not isolates:
        yield Light(
            "isolation",
            Status.BAD,
            "WSL2 or Docker Desktop: every card is visible to every container, whatever was granted.",
            "Use a Linux host with a native Docker Engine for GPUs that teams share.",
        )
    if any("rootless" in option for option in facts.security_options):
        yield Light(
            "rootless",
            Status.WARN,
            "The engine runs rootless: device cgroups cannot be set, and attaching cards by device request fails.",
            "Attach by CDI, or use a rootful engine.",
        )
    if facts.system_time is not None:
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

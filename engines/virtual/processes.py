"""What goes on in a running container: its process, its health check, its restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from engines.virtual.containers import NANOSECONDS, Container
from engines.virtual.programs import FOREVER, Program

FIRST_RESTART_S = 0.1
LONGEST_RESTART_S = 60.0
_DEFAULT_INTERVAL_S = 30.0
_DEFAULT_RETRIES = 3


async def run_process(container: Container, program: Program, clock: Callable[[], float]) -> int:
    """Play ``program`` into the container's output; its exit code."""
    for step in program.run():
        if isinstance(step, tuple):
            container.output.add(clock(), *step)
            container.notify()
        else:
            await pause(step)
    return program.exit_code


async def pause(seconds: float) -> None:
    if seconds == FOREVER:
        await asyncio.Event().wait()
    await asyncio.sleep(seconds)


def health_command(container: Container) -> list[str]:
    """The check as a command; empty without one."""
    test: Sequence[str] = (container.config.get("Healthcheck") or {}).get("Test") or []
    match list(test):
        case ["CMD", *command]:
            return [str(word) for word in command]
        case ["CMD-SHELL", script]:
            return ["sh", "-c", str(script)]
        case _:
            return []


async def watch_health(container: Container, check: Callable[[], Program]) -> None:
    """Check in the given interval, as long as the container runs.

    A command that is not known here passes: what it would find cannot be played. One that
    takes longer than its timeout fails.
    """
    config = container.config.get("Healthcheck") or {}
    interval_s = (config.get("Interval") or 0) / NANOSECONDS or _DEFAULT_INTERVAL_S
    timeout_s = (config.get("Timeout") or 0) / NANOSECONDS or _DEFAULT_INTERVAL_S
    retries = config.get("Retries") or _DEFAULT_RETRIES
    while True:
        await asyncio.sleep(interval_s)
        try:
            async with asyncio.timeout(timeout_s):
                healthy = await _passes(check())
        except TimeoutError:
            healthy = False
        if healthy:
            container.failing_streak, container.health = 0, "healthy"
        else:
            container.failing_streak += 1
            if container.failing_streak >= retries:
                container.health = "unhealthy"
        container.notify()


async def _passes(program: Program) -> bool:
    if program.missing_executable():
        return True
    for step in program.run():
        if not isinstance(step, tuple):
            await pause(step)
    return program.exit_code == 0


def restarts(container: Container) -> bool:
    """Whether its policy brings it back after it has ended by itself."""
    name, retries = container.restart_policy
    if container.stopped_by_hand:
        return False
    if name == "on-failure":
        return container.exit_code != 0 and (retries == 0 or container.restart_count < retries)
    return name in ("always", "unless-stopped")


def restart_delay_s(container: Container) -> float:
    return float(min(LONGEST_RESTART_S, FIRST_RESTART_S * 2**container.restart_count))

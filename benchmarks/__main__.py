"""``python -m benchmarks [latency] [throughput] [lists] [sweep] [placement]``: all of them, or these."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import docker

from benchmarks import latency, lists, memory, placement, report, rows, sweep, throughput
from benchmarks.report import Section
from benchmarks.stack import services, stack

NAMES = ("latency", "throughput", "lists", "sweep", "placement")
# Lists come last: while their 10,000 nodes exist, the worker reconciles each of them.
ON_THE_STACK = {"latency": latency, "throughput": throughput, "lists": lists}


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupted)
    chosen = sys.argv[1:] or list(NAMES)
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        print(f"There is no benchmark called {', '.join(unknown)}. Known: {', '.join(NAMES)}.")
        return 2
    machine = report.machine()
    sections: list[Section] = []
    with services() as (engine, broker, fleet, folder):
        machine |= _versions(engine, broker)
        if set(chosen) & set(ON_THE_STACK):
            with stack(engine, fleet, folder) as running:
                taken = memory.take(running, "idle")
                for name, module in ON_THE_STACK.items():
                    if name in chosen:
                        sections.append(_show(module.run(running)))
                        rows.clear()
                        taken += memory.take(running, f"after {name}")
                sections.append(_show(memory.section(taken)))
        if "sweep" in chosen:
            sections.append(_show(sweep.run(folder)))
        if "placement" in chosen:
            sections.append(_show(placement.run()))
    if set(chosen) == set(NAMES):
        report.write(sections, machine)
        print(f"Written to {report.RESULTS}.")
    return 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(section: Section) -> Section:
    print(f"\n{section.title}")
    for figure in section.figures:
        print(f"  {figure.what:<48} {figure.value}   {figure.target} {figure.verdict}", flush=True)
    return section


def _versions(engine: str, broker: str) -> dict[str, str]:
    from django.db import connection
    from redis import Redis

    client = docker.APIClient(engine, version="auto")
    told = client.version()
    client.close()
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        database = cursor.fetchone()[0]
    with Redis.from_url(broker) as redis:
        redis_version = redis.info("server")["redis_version"]
    return {"Docker Engine": told["Version"], "PostgreSQL": database, "Redis": redis_version}


if __name__ == "__main__":
    sys.exit(main())

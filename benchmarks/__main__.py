"""``python -m benchmarks [latency] [throughput] [placement] [lists] [sweep]``: all of them, or these."""

from __future__ import annotations

import sys

import docker

from benchmarks import latency, lists, placement, report, sweep, throughput
from benchmarks.report import Section
from benchmarks.stack import services, stack

NAMES = ("latency", "throughput", "lists", "sweep", "placement")


def main() -> int:
    chosen = sys.argv[1:] or list(NAMES)
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        print(f"There is no benchmark called {', '.join(unknown)}. Known: {', '.join(NAMES)}.")
        return 2
    sections: list[Section] = []
    with services() as (engine, fleet, folder):
        versions = _versions(engine)
        with stack(engine, fleet, folder) as running:
            for name, module in (("lists", lists), ("latency", latency), ("throughput", throughput)):
                if name in chosen:
                    sections.append(_show(module.run(running)))
                    placement.clear()
        if "sweep" in chosen:
            sections.append(_show(sweep.run(folder)))
        if "placement" in chosen:
            sections.append(_show(placement.run()))
    if len(chosen) == len(NAMES):
        report.write(sections, versions)
        print(f"Written to {report.RESULTS}.")
    return 0


def _show(section: Section) -> Section:
    print(f"\n{section.title}")
    for figure in section.figures:
        print(f"  {figure.what:<48} {figure.value}   {figure.target} {figure.verdict}")
    return section


def _versions(engine: str) -> dict[str, str]:
    from django.db import connection

    client = docker.APIClient(engine, version="auto")
    told = client.version()
    client.close()
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        database = cursor.fetchone()[0]
    return {"Docker Engine": told["Version"], "PostgreSQL": database}


if __name__ == "__main__":
    sys.exit(main())

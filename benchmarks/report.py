"""Figures beside their targets, and the machine they were taken on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a benchmark. ``met`` None: there is no target."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        return "" if self.met is None else "met" if self.met else "MISSED"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    how: str
    figures: Sequence[Figure]


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The value that 99 % do not pass; the largest of few."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def write(sections: Sequence[Section], machine: dict[str, str]) -> str:
    """Write RESULTS.md and return its text."""
    lines = ["# Results", "", f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += [
        "",
        "The private PostgreSQL does not wait for the disk (`fsync` and `synchronous_commit` are off): with a durable "
        "one, each commit costs that wait on top. A load above the number of cores means that others worked on the "
        "machine at the same time; ratios within the run suffer less from that than times.",
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.how, "", "| what | figure | target | |", "|--|--|--|--|"]
        lines += [f"| {each.what} | {each.value} | {each.target} | {each.verdict} |" for each in section.figures]
    text = "\n".join(lines) + "\n"
    RESULTS.write_text(text)
    return text


def machine() -> dict[str, str]:
    """What the figures depend on. Called before the first measurement: the load is that of the others."""
    model = next((line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "unknown")
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    changed = " and uncommitted changes" if _git("status", "--porcelain", "--", "*.py") else ""
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{int(memory) // 1024 // 1024} GiB",
        "kernel": platform.release(),
        "Python": platform.python_version(),
        "load when it began": f"{os.getloadavg()[0]:.1f}",
        "commit": commit + changed,
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []

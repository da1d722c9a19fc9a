"""Memory of web, worker and beat together, before anything was asked of them and after each benchmark."""

from __future__ import annotations

from benchmarks.report import Figure, Section
from benchmarks.stack import Stack, memory_mib

LIMIT_MB = 300
MB_PER_MIB = 1.048576


def take(stack: Stack, word: str) -> list[Figure]:
    """One line for the proportional set size, which is judged, and one for the resident."""
    return [_figure(stack, word, "Pss"), _figure(stack, word, "Rss")]


def section(figures: list[Figure]) -> Section:
    return Section(
        "Memory",
        "Web, worker and beat with their children. PSS divides a page among the processes that share it; RSS counts it "
        "in each. The benchmarks ran in this order in the same processes. While the lists' 10,000 nodes exist, none of "
        "which answers, the worker reconciles each of them.",
        figures,
    )


def _figure(stack: Stack, word: str, what: str) -> Figure:
    memory = memory_mib(stack.processes, what)
    total = sum(memory.values()) * MB_PER_MIB
    parts = ", ".join(f"{name} {value * MB_PER_MIB:.0f}" for name, value in memory.items())
    value = f"{total:.0f} MB ({parts})"
    if what == "Rss":
        return Figure(f"RSS, {word}", value)
    return Figure(f"PSS, {word}", value, f"under {LIMIT_MB} MB together", total < LIMIT_MB)

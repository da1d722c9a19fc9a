"""One deploy request's transaction at 10, 100 and 1,000 nodes of 10 cards, 90 % of them held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.report import Figure, Section, ms, p50, p99
from benchmarks.rows import CARDS, MODELS, clear, fill

if TYPE_CHECKING:
    from apps_runtime.models import App
    from workspaces.models import Workspace

SIZES = (10, 100, 1000)
ROUNDS, WARM_UP = 60, 5
KINDS = ("", "a100")
SLOWEST_S = 0.015
GROWTH = 1.5


def run() -> Section:
    medians: dict[tuple[int, str], float] = {}
    figures = []
    plans: dict[str, str] = {}
    for nodes in SIZES:
        taken, plans = _measure(nodes)
        for kind, values in taken.items():
            medians[nodes, kind] = p50(values)
            figures.append(
                Figure(
                    f"{nodes * CARDS:,} cards on {nodes:,} nodes, {_word(kind)}",
                    f"p50 {ms(p50(values))}, p99 {ms(p99(values))}",
                    f"p50 under {SLOWEST_S * 1000:.0f} ms",
                    p50(values) < SLOWEST_S,
                )
            )
    for kind in KINDS:
        growth = medians[SIZES[-1], kind] / medians[SIZES[0], kind]
        what = f"{SIZES[-1] * CARDS:,} cards against {SIZES[0] * CARDS:,}, {_word(kind)}"
        figures.append(Figure(what, f"{growth:.2f} times", f"at most {GROWTH:.2f}", growth <= GROWTH))
        if growth > GROWTH:
            print(f"\nThe slowest query of a request at the largest size, {_word(kind)}:\n{plans[kind]}")
    return Section(
        "Placement",
        f"`lifecycle.request_deploy` on PostgreSQL, {ROUNDS} requests each, any kind and one kind in turn: permission, "
        f"quota, placement, leases, the deployment and its trace, to the commit; sending the wake-up is left out. "
        f"{len(MODELS)} models. Of each node's {CARDS} cards {CARDS - 1} are held; what a request took is given back "
        "before the next one, outside the measured time.",
        figures,
    )


def _word(kind: str) -> str:
    return f"kind {kind}" if kind else "any kind"


def _measure(nodes: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of each request by kind, and the plan of the slowest query by kind."""
    from celery import current_app
    from django.db import connection

    from tests.factories import make_workspace

    clear()
    fill(nodes)
    with connection.cursor() as cursor:
        # As autovacuum leaves a fleet: without the dead rows of the size before.
        cursor.execute("VACUUM ANALYZE")
    workspace = make_workspace()
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with mock.patch.object(current_app, "send_task"):
        for _ in range(WARM_UP + ROUNDS):
            for kind in KINDS:
                taken[kind].append(_request(workspace, kind))
        plans = {kind: _plan(workspace, kind) for kind in KINDS}
    return {kind: values[WARM_UP:] for kind, values in taken.items()}, plans


def _request(workspace: Workspace, kind: str) -> float:
    from apps_runtime import lifecycle
    from tests.factories import make_app
    from workspaces.audit import PLATFORM

    app = make_app(workspace, gpu=1, gpu_kind=kind)
    began = time.perf_counter()
    lifecycle.request_deploy(app, actor=PLATFORM)
    took = time.perf_counter() - began
    _give_back(app)
    return took


def _give_back(app: App) -> None:
    """The fleet stays as full as it was."""
    from apps_runtime import lifecycle, steps
    from workspaces.audit import PLATFORM

    lifecycle.request_stop(app, actor=PLATFORM)
    # Nothing was created yet, so this ends it without asking an engine.
    steps.advance(app.pk)


def _plan(workspace: Workspace, kind: str) -> str:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        _request(workspace, kind)
    reads = [query for query in captured.captured_queries if query["sql"].startswith("SELECT")]
    slowest = max(reads, key=lambda query: float(query["time"]))
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + slowest["sql"].replace("%", "%%"))
        lines = [row[0] for row in cursor.fetchall()]
    return "\n".join([f"{len(captured)} queries; {slowest['time']} s: {slowest['sql'][:600]}", *lines])

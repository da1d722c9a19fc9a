"""One deploy request's transaction at 10, 100 and 1,000 nodes of 10 cards, 90 % of them held."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from benchmarks.report import Figure, Section, ms, p50, p99
from benchmarks.rows import CARDS, MODELS, clear, fill

if TYPE_CHECKING:
    from apps_runtime.models import App
    from workspaces.models import Workspace

SIZES = (10, 100, 1000)
ROUNDS, WARM_UP = 40, 5
KINDS = ("", "a100")
SLOWEST_S = 0.015
GROWTH = 1.5


class Took(NamedTuple):
    """Seconds by the clock, and of the processor in this process (without the database's own)."""

    clock: float
    processor: float


def run() -> Section:
    taken: dict[tuple[int, str], list[Took]] = defaultdict(list)
    plans: dict[str, str] = {}
    # There and back: what else the machine does changes by the minute, and must not pass for growth.
    for nodes in (*SIZES, *reversed(SIZES)):
        values, found = _measure(nodes)
        if nodes == SIZES[-1]:
            plans = found
        for kind, each in values.items():
            taken[nodes, kind] += each
    medians = {key: p50([each.clock for each in values]) for key, values in taken.items()}
    figures = []
    for (nodes, kind), both in taken.items():
        median, processor = medians[nodes, kind], p50([each.processor for each in both])
        tail = p99([each.clock for each in both])
        figures.append(
            Figure(
                f"{nodes * CARDS:,} cards on {nodes:,} nodes, {_word(kind)}",
                f"p50 {ms(median)}, p99 {ms(tail)}, of it processor here {ms(processor)}",
                f"p50 under {SLOWEST_S * 1000:.0f} ms",
                median < SLOWEST_S,
            )
        )
    for kind in KINDS:
        growth = medians[SIZES[-1], kind] / medians[SIZES[0], kind]
        what = f"{SIZES[-1] * CARDS:,} cards against {SIZES[0] * CARDS:,}, {_word(kind)}"
        figures.append(Figure(what, f"{growth:.2f} times", f"at most {GROWTH:.2f}", growth <= GROWTH))
        if growth > GROWTH:
            print(f"\nThe dearest query of a request at the largest size, {_word(kind)}:\n{plans[kind]}")
    return Section(
        "Placement",
        f"`lifecycle.request_deploy` on PostgreSQL, {2 * ROUNDS} requests each, the sizes there and back, any kind and "
        "one kind in turn: permission, quota, placement, leases, the deployment and its trace, to the commit; sending "
        f"the wake-up is left out. {len(MODELS)} models. Of each node's {CARDS} cards {CARDS - 1} are held; what a "
        "request took is given back before the next one, outside the measured time.",
        figures,
    )


def _word(kind: str) -> str:
    return f"kind {kind}" if kind else "any kind"


def _measure(nodes: int) -> tuple[dict[str, list[Took]], dict[str, str]]:
    """Seconds of each request by kind, and the plan of the dearest query by kind."""
    from celery import current_app
    from django.db import connection

    from tests.factories import make_workspace

    clear()
    fill(nodes)
    with connection.cursor() as cursor:
        # As autovacuum leaves a fleet: without the dead rows of the size before.
        cursor.execute("VACUUM ANALYZE")
    workspace = make_workspace()
    taken: dict[str, list[Took]] = {kind: [] for kind in KINDS}
    with mock.patch.object(current_app, "send_task"):
        for _ in range(WARM_UP + ROUNDS):
            for kind in KINDS:
                taken[kind].append(_request(workspace, kind))
        plans = {kind: _plan(workspace, kind) for kind in KINDS}
    return {kind: values[WARM_UP:] for kind, values in taken.items()}, plans


def _request(workspace: Workspace, kind: str) -> Took:
    from apps_runtime import lifecycle
    from tests.factories import make_app
    from workspaces.audit import PLATFORM

    app = make_app(workspace, gpu=1, gpu_kind=kind)
    began, began_cpu = time.perf_counter(), time.thread_time()
    lifecycle.request_deploy(app, actor=PLATFORM)
    took = Took(time.perf_counter() - began, time.thread_time() - began_cpu)
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
    """How the database reads what it thinks the dearest of a request's queries."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from apps_runtime import lifecycle
    from tests.factories import make_app
    from workspaces.audit import PLATFORM

    app = make_app(workspace, gpu=1, gpu_kind=kind)
    with CaptureQueriesContext(connection) as captured:
        lifecycle.request_deploy(app, actor=PLATFORM)
    _give_back(app)
    dearest, plan = 0.0, ""
    with connection.cursor() as cursor:
        for query in (each["sql"] for each in captured.captured_queries if each["sql"].startswith("SELECT")):
            cursor.execute("EXPLAIN " + query)
            lines = [str(row[0]) for row in cursor.fetchall()]
            cost = float(lines[0].split("cost=")[1].split("..")[1].split()[0])
            if cost > dearest:
                dearest, plan = cost, "\n".join([query, *lines])
    return f"{len(captured)} statements; the dearest:\n{plan}"

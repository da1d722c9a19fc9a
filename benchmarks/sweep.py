"""An inventory of 200 virtual nodes, without and with one that hangs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.report import Figure, Section, ms, p50

NODES, AT_ONCE = 200, 16
HANG_DEADLINE_S = 3.0
PROBE_SECONDS = 1.0


def run(folder: Path) -> Section:
    from django.conf import settings

    from engines.contract import EngineAddress, OneShot
    from engines.docker import DockerEngine
    from engines.virtual.faults import Fault
    from engines.virtual.node import VirtualNode
    from engines.virtual.serving import serve
    from gpus.probe_command import PROBE_COMMAND
    from tests.factories import make_node

    sockets = folder / "sweep"
    sockets.mkdir()
    virtual = [VirtualNode.with_cards(f"sweep-{n}", 4, pull_seconds=0.0) for n in range(NODES)]
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = HANG_DEADLINE_S
    with serve(virtual, sockets) as serving:
        rows = [make_node(node.name, address=url) for node, url in zip(virtual, serving.urls, strict=True)]
        for node in virtual:
            node.faults.add(Fault("latency", "wait", seconds=PROBE_SECONDS))
        engine = DockerEngine(EngineAddress(serving.urls[0]))
        job = OneShot("bare", settings.MIABI_GPU_PROBE_IMAGE, PROBE_COMMAND, {}, all_gpus=True)
        engine.run_once(job)
        bare = p50([_timed(lambda: engine.run_once(job)) for _ in range(5)])
        _sweep(rows)  # the first one pulls and inserts
        plain = _sweep(rows)
        hung = virtual[0]
        serving.call(lambda: hung.faults.add(Fault("hang", "info")))
        others = _sweep(rows, without=rows[0].pk)
        engine.close()
        serving.call(hung.faults.clear)
    ideal = bare * NODES / AT_ONCE
    return Section(
        "Inventory sweep",
        f"{NODES} virtual nodes with 4 cards each, {AT_ONCE} probes at once. The ideal is the time of a bare one-shot "
        f"times {NODES} over {AT_ONCE}. A virtual node costs processor time in this process, so each one-shot waits a "
        "second, as a real one does. The hung node's own probe ends at its deadline.",
        [
            Figure("bare one-shot", ms(bare)),
            Figure("sweep", f"{plain:.2f} s, {plain / ideal:.2f} times the ideal of {ideal:.2f} s"),
            Figure(
                "the other nodes, one hung",
                f"{others:.2f} s, {others / plain:.2f} times the plain sweep",
                "nothing changes for the others",
                others / plain < 1.25,
            ),
        ],
    )


def _timed(call: object) -> float:
    began = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - began


def _sweep(rows: list[object], *, without: int | None = None) -> float:
    """Seconds until all nodes (or all but ``without``) were probed."""
    from django.db import connections

    from gpus.inventory import probe_node

    ended: list[float] = []

    def one(row: object) -> None:
        outcome = probe_node(row.pk)  # type: ignore[attr-defined]
        if row.pk != without:  # type: ignore[attr-defined]
            if outcome.code:
                raise RuntimeError(f"a probe failed: {outcome}")
            ended.append(time.perf_counter())
        connections.close_all()

    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, rows))
    return max(ended) - began

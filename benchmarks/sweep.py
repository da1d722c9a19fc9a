"""An inventory of 200 virtual nodes, without and with one that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Figure, Section, ms, p50

if TYPE_CHECKING:
    from gpus.models import Node

NODES, AT_ONCE, CARDS = 200, 16, 4
HANG_DEADLINE_S = 3.0
WAIT_S = 1.0
UNCHANGED = 1.1
"""How much longer the other nodes may take: the hung one holds one of the 16 places until its deadline."""


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
    virtual = [VirtualNode.with_cards(f"sweep-{n}", CARDS, pull_seconds=0.0) for n in range(NODES)]
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = HANG_DEADLINE_S
    with serve(virtual, sockets) as serving:
        nodes = [make_node(node.name, address=url) for node, url in zip(virtual, serving.urls, strict=True)]
        engine = DockerEngine(EngineAddress(serving.urls[0]))
        job = OneShot("bare", settings.MIABI_GPU_PROBE_IMAGE, PROBE_COMMAND, {}, all_gpus=True)

        def bare_one_shot() -> float:
            return p50([_timed(lambda: engine.run_once(job)) for _ in range(5)])

        def wait_everywhere() -> None:
            for node in virtual:
                node.faults.add(Fault("latency", "wait", seconds=WAIT_S))

        engine.run_once(job)
        _sweep(nodes)  # the first one pulls and inserts
        at_once, at_once_bare = _sweep(nodes), bare_one_shot()
        serving.call(wait_everywhere)
        waiting, waiting_bare = _sweep(nodes), bare_one_shot()
        serving.call(lambda: virtual[0].faults.add(Fault("hang", "info")))
        others = _sweep(nodes, hung=nodes[0])
        engine.close()
        serving.call(virtual[0].faults.clear)
    return Section(
        "Inventory sweep",
        f"{NODES} virtual nodes with {CARDS} cards each, {AT_ONCE} probes at once. The ideal is the bare one-shot's "
        f"time times {NODES} over {AT_ONCE}. Virtual nodes run in the measuring process, which has one processor for "
        "them, the probes and the merging: a one-shot that waits for nothing measures that processor, and the ideal "
        f"of {AT_ONCE} at once is out of its reach. In the second pair each one-shot waits {WAIT_S:.0f} s, put in by "
        f"latency, which is what probes at once can share. The hung node's own probe ends at its deadline of "
        f"{HANG_DEADLINE_S:.0f} s.",
        [
            *_figures("no wait", at_once, at_once_bare),
            *_figures(f"{WAIT_S:.0f} s wait put in", waiting, waiting_bare),
            Figure(
                f"the other {NODES - 1} nodes, one hung, {WAIT_S:.0f} s wait",
                f"{others:.2f} s, {others / waiting:.2f} times the sweep without",
                f"nothing changes for the others (at most {UNCHANGED:.2f})",
                others / waiting <= UNCHANGED,
            ),
        ],
    )


def _figures(word: str, sweep: float, bare: float) -> list[Figure]:
    ideal = bare * NODES / AT_ONCE
    return [
        Figure(f"bare one-shot, {word}", ms(bare)),
        Figure(
            f"sweep, {word}",
            f"{sweep:.2f} s, {sweep / ideal:.2f} times the ideal of {ideal:.2f} s; {ms(sweep / NODES)} a node",
        ),
    ]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _sweep(nodes: Sequence[Node], *, hung: Node | None = None) -> float:
    """Seconds until all nodes (or all but ``hung``) were probed. Raises RuntimeError when a probe fails,
    or that of ``hung`` does not."""
    from django.db import connections

    from gpus.inventory import probe_node

    ended: list[float] = []

    def one(node: Node) -> None:
        outcome = probe_node(node.pk)
        if bool(outcome.code) != (node is hung):
            raise RuntimeError(f"unexpected outcome of probing {node.name}: {outcome}")
        if node is not hung:
            ended.append(time.perf_counter())
        connections.close_all()

    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, nodes))
    return max(ended) - began

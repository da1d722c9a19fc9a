"""Probe nodes now, or ask the worker to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from gpus.inventory import ProbeOutcome, probe_node
from gpus.models import Node
from gpus.nodes import request_rescan
from refusals import Refusal
from workspaces.audit import PLATFORM

AT_ONCE = 12
"""Probes at the same time; each holds a database connection, and the pool has 20."""

HEADINGS = ("NODE", "RESULT", "DEVICES", "NEW", "VANISHED", "SECONDS")


class Command(BaseCommand):
    help = "Read the GPUs of one node or of all. Without --wait the worker is asked to."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--node", metavar="NAME", help="Only this node.")
        which.add_argument("--all", action="store_true", help="Every node; so it is without --node too.")
        parser.add_argument("--wait", action="store_true", help="Probe from here and print what came out.")

    def handle(self, *args: Any, **options: Any) -> None:
        nodes = Node.objects.order_by("name")
        if options["node"] is not None:
            nodes = nodes.filter(name=options["node"])
            if not nodes:
                raise CommandError(f"There is no node called {options['node']}.")
        if not nodes:
            self.stdout.write("No nodes are registered. Add one in the console first.")
        elif options["wait"]:
            self._probe(list(nodes))
        else:
            self._ask(list(nodes))

    def _ask(self, nodes: Sequence[Node]) -> None:
        try:
            for node in nodes:
                request_rescan(node, actor=PLATFORM)
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal
        self.stdout.write(f"Asked for {len(nodes)} probe(s). The results show on the node's page.")

    def _probe(self, nodes: Sequence[Node]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(_probe_in_thread, [node.pk for node in nodes]))
        for line in _table([HEADINGS, *map(_row, outcomes)]):
            self.stdout.write(line)
        failed = [outcome for outcome in outcomes if outcome.code]
        for outcome in failed:
            self.stderr.write(f"{outcome.node}: {outcome.sentence} {outcome.hint}".rstrip())
        if failed:
            raise CommandError(f"{len(failed)} of {len(outcomes)} probe(s) gave no inventory.")


def _probe_in_thread(node_id: int) -> ProbeOutcome:
    try:
        return probe_node(node_id)
    except Node.DoesNotExist:
        return ProbeOutcome(f"node {node_id}", False, "node_removed", "The node was removed meanwhile.")
    finally:
        connections.close_all()


def _row(outcome: ProbeOutcome) -> tuple[str, ...]:
    counts = (outcome.devices, outcome.added, outcome.vanished) if not outcome.code else ("-", "-", outcome.vanished)
    return (outcome.node, outcome.code or "ok", *map(str, counts), f"{outcome.seconds:.1f}")


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

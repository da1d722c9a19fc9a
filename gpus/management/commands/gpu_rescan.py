"""Probe nodes now, or ask the worker to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from gpus.inventory import ProbeOutcome, probe_node
from gpus.models import Node
from gpus.nodes import request_rescan
from workspaces.audit import PLATFORM

AT_ONCE = 16


class Command(BaseCommand):
    help = "Read the GPUs of one node or of all. Without --wait the worker is asked to."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--node", help="Only this node, by name.")
        parser.add_argument("--wait", action="store_true", help="Probe from here and print what came out.")

    def handle(self, *args: Any, **options: Any) -> None:
        nodes = list(Node.objects.order_by("name"))
        if options["node"]:
            nodes = [node for node in nodes if node.name == options["node"]]
            if not nodes:
                raise CommandError(f"There is no node called {options['node']}.")
        if not nodes:
            self.stdout.write("No nodes are registered. Add one in the console first.")
            return
        if not options["wait"]:
            for node in nodes:
                request_rescan(node, actor=PLATFORM)
            self.stdout.write(f"Asked for {len(nodes)} probe(s).")
            return
        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(_probe, nodes))
        for outcome in outcomes:
            self.stdout.write(_line(outcome))
        failed = [outcome.node for outcome in outcomes if outcome.code]
        if failed:
            raise CommandError(f"{len(failed)} of {len(outcomes)} probe(s) gave no inventory: {', '.join(failed)}.")


def _probe(node: Node) -> ProbeOutcome:
    try:
        return probe_node(node.pk)
    finally:
        connections.close_all()


def _line(outcome: ProbeOutcome) -> str:
    if outcome.code:
        return f"{outcome.node}: {outcome.code}: {outcome.sentence} {outcome.hint}".rstrip()
    return (
        f"{outcome.node}: {outcome.devices} device(s), {outcome.added} new, {outcome.vanished} vanished, "
        f"{outcome.seconds:.1f} s"
    )

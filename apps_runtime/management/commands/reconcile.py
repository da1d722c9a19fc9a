"""Bring rows and containers together now, node by node."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps_runtime import steps
from apps_runtime.reconcile import reconcile_node
from gpus.models import Node


class Command(BaseCommand):
    help = "Compare the rows with the containers of each node, settle the differences, and do what is due."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--node", help="Only this node, by name.")

    def handle(self, *args: Any, **options: Any) -> None:
        nodes = Node.objects.order_by("name")
        if options["node"]:
            nodes = nodes.filter(name=options["node"])
            if not nodes.exists():
                known = ", ".join(Node.objects.values_list("name", flat=True)) or "none"
                raise CommandError(f"There is no node called {options['node']}. Known: {known}.")
        unreachable = []
        for node in nodes:
            report = reconcile_node(node.pk)
            if not report.reachable:
                unreachable.append(report.node)
            self.stdout.write(
                f"{report.node}: {'reachable' if report.reachable else 'UNREACHABLE, leases kept'}, "
                f"{report.containers} container(s), {report.ended} ended, {report.removed} stray removed, "
                f"{report.leases_ended} old lease(s) ended, {report.counts_mended} count(s) mended"
            )
            for problem in report.problems:
                self.stderr.write(f"  {problem}")
        for app_id in list(steps.due_apps()):
            steps.advance(app_id)
        if unreachable:
            raise CommandError(f"Not reachable: {', '.join(unreachable)}.")

"""Apply a manifest from the shell."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps_runtime.applying import Change, apply
from apps_runtime.models import Deployment
from apps_runtime.states import COMING_UP, State
from refusals import Refusal
from workspaces.audit import PLATFORM
from workspaces.models import Workspace

WAIT_SECONDS = 600


class Command(BaseCommand):
    help = "Bring a workspace to what a manifest declares. Declares only, unless --deploy is given."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-f", "--file", required=True, help="The manifest; - reads standard input.")
        parser.add_argument("--workspace", required=True, help="Slug of the workspace.")
        parser.add_argument("--dry-run", action="store_true", help="Say what would change and whether it fits.")
        parser.add_argument("--deploy", action="store_true", help="Deploy what changed or is not running.")
        parser.add_argument("--wait", action="store_true", help="With --deploy: until it runs or has failed.")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace.objects.select_related("plan").filter(slug=options["workspace"]).first()
        if workspace is None:
            raise CommandError(f"There is no workspace called {options['workspace']}.")
        try:
            changes = apply(
                workspace,
                _read(options["file"]),
                actor=PLATFORM,
                dry_run=options["dry_run"],
                deploy=options["deploy"],
            )
        except Refusal as refusal:
            raise CommandError(f"{refusal.code}: {refusal.detail}") from refusal
        for change in changes:
            self._print(change, dry_run=options["dry_run"])
        if options["wait"]:
            self._wait(workspace, changes)

    def _print(self, change: Change, *, dry_run: bool) -> None:
        verb = {"create": "created", "update": "updated"}.get(change.action, change.action)
        self.stdout.write(f"{change.kind}/{change.name} {f'would be {verb}' if dry_run else verb}")
        for name, values in change.changes.items():
            self.stdout.write(f"    {name}: {values['before']!r} -> {values['after']!r}")
        for warning in change.warnings:
            self.stdout.write(f"    note: {warning}")
        if change.fit is not None:
            self.stdout.write("    fits now" if change.fit.fits else f"    does not fit: {change.fit.reason}")
            for node in change.fit.nodes:
                self.stdout.write(f"      {node.node}: {'yes' if node.fits else node.reason}")
        if change.deployment is not None:
            self.stdout.write(f"    deployment #{change.deployment} queued")

    def _wait(self, workspace: Workspace, changes: list[Change]) -> None:
        began = time.monotonic()
        failed = []
        for change in changes:
            if change.deployment is None:
                continue
            wanted = Deployment.objects.filter(
                app__workspace=workspace, app__name=change.name, number=change.deployment
            )
            deployment = wanted.get()
            while deployment.state in COMING_UP | {State.STOPPING} and time.monotonic() - began < WAIT_SECONDS:
                time.sleep(0.5)
                deployment = wanted.get()
            self.stdout.write(f"{change.name} #{change.deployment} {deployment.state} {deployment.reason}".rstrip())
            if deployment.state not in (State.RUNNING, State.STOPPED):
                failed.append(change.name)
        if failed:
            raise CommandError(f"Not running: {', '.join(failed)}.")


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}.") from error

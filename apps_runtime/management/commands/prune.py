"""Delete old deployments and events."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from apps_runtime.pruning import prune


class Command(BaseCommand):
    help = "Delete ended deployments and their events older than --days; live ones and each app's latest stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--days",
            type=int,
            default=settings.MIABI_KEEP_DAYS,
            help="Keep this many days (default: MIABI_KEEP_DAYS).",
        )
        parser.add_argument("--dry-run", action="store_true", help="Only say what would go.")

    def handle(self, *args: Any, **options: Any) -> None:
        pruned = prune(keep_days=options["days"], dry_run=options["dry_run"])
        would = "Would delete" if options["dry_run"] else "Deleted"
        self.stdout.write(f"{would} {pruned.deployments} deployment(s) and {pruned.events} event(s).")

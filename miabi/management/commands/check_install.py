"""Say what is configured, what is reachable and what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from miabi.installation_check import Finding, Status, examine_installation


class Command(BaseCommand):
    help = "What is configured, reachable and missing. Ends with status 1 when there are problems."
    # The checks that manage.py makes beforehand would end the command where it has most to tell.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="As one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = examine_installation()
        problems = [finding for finding in findings if finding.status is Status.PROBLEM]
        if options["json"]:
            told = {"ok": not problems, "findings": [asdict(finding) for finding in findings]}
            self.stdout.write(json.dumps(told, indent=2))
        else:
            for finding in findings:
                self._print(finding)
        if problems:
            raise CommandError(f"{len(problems)} problem(s).")

    def _print(self, finding: Finding) -> None:
        style = {Status.OK: self.style.SUCCESS, Status.NOTE: self.style.WARNING, Status.PROBLEM: self.style.ERROR}
        mark = style[finding.status](f"{finding.status:<8}")
        self.stdout.write(f"{mark} {finding.part:<16} {finding.sentence}")
        if finding.fix:
            self.stdout.write(f"{'':<26}{finding.fix}")

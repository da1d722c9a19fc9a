"""Make the first operator, plans, workspace and node of an empty installation."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from miabi.seeding import OPERATOR, TENANT, seed


class Command(BaseCommand):
    help = "Seed an empty installation and print the first logins, once. Does nothing when there are users."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--virtual-address",
            default=f"unix://{settings.MIABI_DATA_DIR / 'virtual.sock'}",
            help="Where the virtual node listens when no Docker Engine answers.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        first = seed(virtual_address=options["virtual_address"])
        if first is None:
            return
        self.stdout.write(
            "\n".join(
                [
                    "",
                    "  First start. These are shown only now:",
                    f"    operator login   {OPERATOR} / {first.operator_password}",
                    f"    tenant login     {TENANT} / {first.tenant_password}",
                    f"    tenant token     {first.tenant_token}   (workspace demo)",
                    f"    node             {first.node}",
                    "",
                ]
            )
        )

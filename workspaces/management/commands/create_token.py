"""Make an API token from the command line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from refusals import Refusal
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, User, Workspace
from workspaces.tokens import create_token

LONGEST_DAYS = 3650


class Command(BaseCommand):
    help = "Make an API token and print it. It is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, help="Whom the token acts for, by username.")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--workspace", help="The one workspace it works in, by slug.")
        where.add_argument("--operator", action="store_true", help="An operator's token: all of /api/v1/.")
        parser.add_argument("--name", required=True, help="What it is for; unique in the workspace.")
        parser.add_argument("--scope", choices=ApiToken.Scope.values, default=ApiToken.Scope.READ)
        parser.add_argument("--days", type=int, help="Days until it expires; without it, never.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user called {options['user']}.")
        workspace = None
        if not options["operator"]:
            workspace = Workspace.objects.filter(slug=options["workspace"]).first()
            if workspace is None:
                raise CommandError(f"There is no workspace called {options['workspace']}.")
        name = options["name"].strip()
        longest = ApiToken._meta.get_field("name").max_length or 0
        if not 1 <= len(name) <= longest:
            raise CommandError(f"A token's name has 1 to {longest} characters.")
        days = options["days"]
        if days is not None and not 1 <= days <= LONGEST_DAYS:
            raise CommandError(f"--days is 1 to {LONGEST_DAYS}, not {days}.")
        try:
            _, text = create_token(
                user,
                name=name,
                workspace=workspace,
                scope=options["scope"],
                expires_at=timezone.now() + timedelta(days=days) if days else None,
                actor=PLATFORM,
            )
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal
        self.stdout.write(text)

"""Play the main job end to end through the public API of a running installation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from miabi.demo import Client, Demo, DemoFailed
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, Membership, User, Workspace
from workspaces.roles import Role
from workspaces.tokens import create_token, revoke_token


class Command(BaseCommand):
    help = "Rescan, enable, deploy, look inside, be refused by quota, stop: through the API of a running Miabi."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="http://127.0.0.1:8000", help="Where Miabi listens.")
        parser.add_argument("--workspace", default="demo")
        parser.add_argument("--image", default="nvidia/cuda:12.4.1-base-ubuntu22.04", help="Has sh; runs on the node.")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace.objects.filter(slug=options["workspace"]).first()
        operator = User.objects.filter(is_superuser=True).order_by("pk").first()
        if workspace is None or operator is None:
            raise CommandError("There is no such workspace or no operator here. Run `make run` first.")
        # A token bound to a workspace acts as a member of it; being an operator is not enough.
        owner = Membership.objects.filter(workspace=workspace, role=Role.OWNER, user__is_active=True).first()
        if owner is None:
            raise CommandError(f"Workspace {workspace} has no owner to play the tenant. Add one first.")
        # Tokens of a few minutes for this play alone, so that it needs no password.
        made = [
            create_token(
                user,
                name=f"demo-play-{timezone.now():%H%M%S%f}-{number}",
                workspace=scope,
                scope=ApiToken.Scope.WRITE,
                expires_at=timezone.now() + timedelta(minutes=15),
                actor=PLATFORM,
            )
            for number, (user, scope) in enumerate([(operator, None), (owner.user, workspace)])
        ]
        clients = [Client(options["url"].rstrip("/"), text) for _, text in made]
        try:
            Demo(clients[0], clients[1], workspace.slug, options["image"], self.stdout.write).play()
        except DemoFailed as failure:
            raise CommandError(str(failure)) from failure
        finally:
            for token, _ in made:
                revoke_token(token, actor=PLATFORM)
        self.stdout.write(self.style.SUCCESS("Done."))

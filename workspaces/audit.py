"""Write down who did what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import models

from workspaces.models import AuditEvent, User, Workspace


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever acts: a person, a person's token, or the platform itself."""

    name: str
    user: User | None = None

    @classmethod
    def person(cls, user: User, *, token_name: str = "") -> Actor:
        name = user.get_username()
        return cls(f"{name} (token {token_name})" if token_name else name, user)


PLATFORM = Actor("platform")


def record(
    actor: Actor,
    verb: str,
    target: models.Model,
    *,
    workspace: Workspace | None = None,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> AuditEvent:
    """Append one event, in the caller's transaction: no change without its trace.

    ``before`` and ``after`` hold only what changed, and never a secret's value.
    """
    return AuditEvent.objects.create(
        actor=actor.user,
        actor_name=actor.name[:160],
        workspace=workspace,
        verb=verb,
        target_type=target._meta.model_name or "",
        target_id=str(target.pk or ""),
        target_name=str(target)[:160],
        before=dict(before or {}),
        after=dict(after or {}),
    )

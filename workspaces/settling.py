"""Operators' side of a workspace: create it, put it on a plan, override, suspend."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from refusals import Conflict, Malformed
from workspaces.audit import Actor, record
from workspaces.models import Membership, User, Workspace
from workspaces.roles import Role

OVERRIDES = (
    "gpu_allowed",
    "gpu_limit",
    "cpu_limit",
    "memory_limit",
    "app_limit",
    "security_profile",
    "max_lease_hours",
)
EDITABLE = frozenset({"name", "plan", "suspended", *OVERRIDES})


class SlugTaken(Conflict):
    code = "workspace_exists"


class WorkspaceInUse(Conflict):
    code = "workspace_in_use"


def create_workspace(fields: dict[str, Any], *, owner: User | None, actor: Actor) -> Workspace:
    """Raises SlugTaken."""
    try:
        with transaction.atomic():
            workspace = Workspace.objects.create(**fields)
            if owner is not None:
                Membership.objects.create(workspace=workspace, user=owner, role=Role.OWNER)
            record(actor, "workspace.create", workspace, workspace=workspace, after=_told(fields))
    except IntegrityError as error:
        raise SlugTaken(
            f"There is a workspace called {fields['slug']} already. Choose another.", attr="slug"
        ) from error
    return workspace


def change_workspace(workspace: Workspace, fields: dict[str, Any], *, actor: Actor) -> Workspace:
    """Change plan, overrides (``None`` inherits), suspension or name; what runs goes on.

    Lower limits bind the next deploy or start.
    """
    unknown = sorted(set(fields) - EDITABLE)
    if unknown:
        raise Malformed(f"A workspace has no setting called {', '.join(unknown)}.", attr=unknown[0])
    with transaction.atomic():
        locked = Workspace.objects.lock(workspace.pk)
        before = {name: getattr(locked, name) for name in fields if getattr(locked, name) != fields[name]}
        for name in before:
            setattr(locked, name, fields[name])
        if before:
            locked.save(update_fields=[*before, "updated_at"])
            record(
                actor,
                "workspace.change",
                locked,
                workspace=locked,
                before=_told(before),
                after=_told({name: fields[name] for name in before}),
            )
    return locked


def delete_workspace(workspace: Workspace, *, actor: Actor) -> None:
    """Delete an empty workspace. Raises WorkspaceInUse while it has apps or volumes."""
    try:
        with transaction.atomic():
            locked = Workspace.objects.lock(workspace.pk)
            record(actor, "workspace.delete", locked)
            locked.delete()
    except ProtectedError as error:
        raise WorkspaceInUse(
            f"Workspace {workspace} still has {len(error.protected_objects)} app(s), volume(s) or deployment(s). "
            "Delete those first."
        ) from error


def _told(fields: dict[str, Any]) -> dict[str, object]:
    return {name: value.name if name == "plan" else value for name, value in fields.items()}

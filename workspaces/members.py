"""Members and roles: nobody grants above their own rank, and an owner always remains."""

from __future__ import annotations

from django.db import transaction

from refusals import Conflict, NotPermitted
from workspaces.audit import Actor, record
from workspaces.models import Membership, User, Workspace
from workspaces.roles import Role


class LastOwner(Conflict):
    code = "last_owner"


class AlreadyMember(Conflict):
    code = "already_member"


class AboveOwnRank(NotPermitted):
    code = "above_own_rank"


def add_member(workspace: Workspace, user: User, role: Role, *, actor: Actor, actor_role: Role) -> Membership:
    """Raises AboveOwnRank, AlreadyMember."""
    _check_rank(actor_role, role)
    with transaction.atomic():
        Workspace.objects.lock(workspace.pk)
        if Membership.objects.filter(workspace=workspace, user=user).exists():
            raise AlreadyMember(f"{user} is a member of {workspace} already. Change the role instead.", attr="username")
        membership = Membership.objects.create(workspace=workspace, user=user, role=role)
        record(actor, "member.add", membership, workspace=workspace, after={"user": str(user), "role": role})
    return membership


def change_role(membership: Membership, role: Role, *, actor: Actor, actor_role: Role) -> Membership:
    """Raises AboveOwnRank, LastOwner."""
    with transaction.atomic():
        locked = _lock(membership)
        _check_rank(actor_role, role)
        _check_rank(actor_role, Role(locked.role))
        if role is not Role.OWNER:
            _keep_an_owner(locked)
        before, locked.role = locked.role, role
        locked.save(update_fields=["role"])
        if before != role:
            record(
                actor,
                "member.role",
                locked,
                workspace=locked.workspace,
                before={"role": before},
                after={"role": role},
            )
    return locked


def remove_member(membership: Membership, *, actor: Actor, actor_role: Role) -> None:
    """End a membership; the member's tokens for the workspace end with it. Raises AboveOwnRank, LastOwner."""
    with transaction.atomic():
        locked = _lock(membership)
        _check_rank(actor_role, Role(locked.role))
        _keep_an_owner(locked)
        record(
            actor,
            "member.remove",
            locked,
            workspace=locked.workspace,
            before={"user": str(locked.user), "role": locked.role},
        )
        locked.delete()


def transfer(workspace: Workspace, to: User, *, actor: Actor, owner: User) -> None:
    """Make member ``to`` an owner and the present ``owner`` an admin, together. Raises Conflict."""
    with transaction.atomic():
        Workspace.objects.lock(workspace.pk)
        members = {row.user_id: row for row in workspace.memberships.select_for_update(no_key=True).order_by("pk")}
        if to.pk not in members or owner.pk not in members:
            raise Conflict(f"{to} is not a member of {workspace}. Add them first.", attr="username")
        Membership.objects.filter(pk=members[owner.pk].pk).update(role=Role.ADMIN)
        Membership.objects.filter(pk=members[to.pk].pk).update(role=Role.OWNER)
        record(actor, "workspace.transfer", workspace, workspace=workspace, after={"owner": str(to)})


def _lock(membership: Membership) -> Membership:
    """The membership under its workspace's lock, so two owners cannot remove each other."""
    Workspace.objects.lock(membership.workspace_id)
    return (
        Membership.objects.select_for_update(no_key=True, of=("self",))
        .select_related("workspace", "user")
        .get(pk=membership.pk)
    )


def _keep_an_owner(membership: Membership) -> None:
    if membership.role != Role.OWNER:
        return
    others = Membership.objects.filter(workspace=membership.workspace, role=Role.OWNER).exclude(pk=membership.pk)
    if not others.exists():
        raise LastOwner(
            f"{membership.user} is the last owner of {membership.workspace}. Make somebody else an owner first."
        )


def _check_rank(own: Role, wanted: Role) -> None:
    if not own.at_least(wanted):
        raise AboveOwnRank(f"Your role {own} does not reach to {wanted}. Ask somebody of that role.", attr="role")

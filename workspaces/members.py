"""Members and roles: nobody grants above their own rank, and an owner always remains."""

from __future__ import annotations

from django.db import transaction

from refusals import Conflict, NotPermitted
from workspaces.audit import Actor, record
from workspaces.models import ApiToken, Membership, User, Workspace
from workspaces.roles import Role
from workspaces.tokens import NotAMember, revoke_token

NEEDED = Role.ADMIN
"""What changing members needs."""


class LastOwner(Conflict):
    code = "last_owner"


class AlreadyMember(Conflict):
    code = "already_member"


class AboveOwnRank(NotPermitted):
    code = "above_own_rank"


def add_member(workspace: Workspace, user: User, role: Role, *, actor: Actor, actor_role: Role) -> Membership:
    """Raises AboveOwnRank, AlreadyMember."""
    with transaction.atomic():
        Workspace.objects.lock(workspace.pk)
        _check_rank(_role_now(workspace, actor, actor_role), role)
        if Membership.objects.filter(workspace=workspace, user=user).exists():
            raise AlreadyMember(f"{user} is a member of {workspace} already. Change the role instead.", attr="username")
        membership = Membership.objects.create(workspace=workspace, user=user, role=role)
        record(actor, "member.add", membership, workspace=workspace, after={"user": str(user), "role": role})
    return membership


def change_role(membership: Membership, role: Role, *, actor: Actor, actor_role: Role) -> Membership:
    """Raises AboveOwnRank, LastOwner, NotAMember."""
    with transaction.atomic():
        locked = _lock(membership)
        own = _role_now(locked.workspace, actor, actor_role)
        _check_rank(own, role)
        _check_rank(own, Role(locked.role))
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
    """End a membership; the member's tokens for the workspace are revoked with it.

    Raises:
        AboveOwnRank, LastOwner, NotAMember
    """
    with transaction.atomic():
        locked = _lock(membership)
        _check_rank(_role_now(locked.workspace, actor, actor_role), Role(locked.role))
        _keep_an_owner(locked)
        for token in ApiToken.objects.filter(workspace=locked.workspace, user=locked.user, revoked_at=None):
            revoke_token(token, actor=actor)
        record(
            actor,
            "member.remove",
            locked,
            workspace=locked.workspace,
            before={"user": str(locked.user), "role": locked.role},
        )
        locked.delete()


def transfer(workspace: Workspace, to: User, *, actor: Actor, owner: User) -> None:
    """Make member ``to`` an owner and the present ``owner`` an admin, together.

    Raises:
        NotAMember: ``to`` is none, or ``owner`` is no owner (any more).
    """
    with transaction.atomic():
        Workspace.objects.lock(workspace.pk)
        members = {row.user_id: row for row in workspace.memberships.select_for_update(no_key=True).order_by("pk")}
        giving, taking = members.get(owner.pk), members.get(to.pk)
        if giving is None or giving.role != Role.OWNER:
            raise NotAMember(
                f"{owner} is no owner of {workspace}, so there is nothing to hand over. Set roles instead."
            )
        if taking is None:
            raise NotAMember(f"{to} is not a member of {workspace}. Add them first.", attr="username")
        if giving.pk == taking.pk:
            return
        Membership.objects.filter(pk=giving.pk).update(role=Role.ADMIN)
        Membership.objects.filter(pk=taking.pk).update(role=Role.OWNER)
        record(
            actor,
            "workspace.transfer",
            workspace,
            workspace=workspace,
            before={"owner": str(owner)},
            after={"owner": str(to)},
        )


def _lock(membership: Membership) -> Membership:
    """The membership under its workspace's lock, so two owners cannot remove each other."""
    Workspace.objects.lock(membership.workspace_id)
    locked = (
        Membership.objects.select_for_update(no_key=True, of=("self",))
        .select_related("workspace", "user")
        .filter(pk=membership.pk)
        .first()
    )
    if locked is None:
        raise NotAMember("This person was removed from the workspace in the meantime.")
    return locked


def _role_now(workspace: Workspace, actor: Actor, role: Role) -> Role:
    """The actor's role under the workspace's lock; ``role`` is what it was when they asked.

    While they waited, somebody may have demoted or removed them. Operators and the
    platform act from outside the workspace and keep the role they came with.

    Raises:
        AboveOwnRank: it no longer reaches to changing members.
    """
    if actor.user is not None and not actor.user.is_staff:
        present = Membership.objects.filter(workspace=workspace, user=actor.user).values_list("role", flat=True).first()
        if present is None:
            raise AboveOwnRank(f"You are no longer a member of {workspace}.")
        role = Role(present)
    if not role.at_least(NEEDED):
        raise AboveOwnRank(f"Changing members of {workspace} needs the role {NEEDED}; yours is {role}.")
    return role


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

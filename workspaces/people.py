"""Operators' changes to people's accounts."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction

from refusals import Conflict
from workspaces.audit import Actor, record
from workspaces.models import User


class UserExists(Conflict):
    code = "user_exists"


class OwnAccount(Conflict):
    code = "own_account"


def create_user(fields: dict[str, Any], *, actor: Actor) -> User:
    """Raises UserExists."""
    try:
        with transaction.atomic():
            user = User.objects.create_user(**fields)
            record(actor, "user.create", user, after=_told(fields))
    except IntegrityError as error:
        raise UserExists(f"There is a user called {fields['username']} already.", attr="username") from error
    return user


def change_user(user: User, fields: dict[str, Any], *, actor: Actor) -> User:
    """Change an account; a deactivated one's sessions and tokens stop working at once.

    Raises:
        OwnAccount: an operator would lock themselves out.
    """
    if (
        actor.user is not None
        and actor.user.pk == user.pk
        and not (fields.get("is_active", True) and fields.get("is_staff", True))
    ):
        raise OwnAccount("You cannot take your own access away. Ask another operator.")
    try:
        with transaction.atomic():
            locked = User.objects.select_for_update(no_key=True).get(pk=user.pk)
            plain = {name: value for name, value in fields.items() if name != "password"}
            before = {name: getattr(locked, name) for name in plain if getattr(locked, name) != plain[name]}
            for name in before:
                setattr(locked, name, plain[name])
            if "password" in fields:
                locked.set_password(fields["password"])
            locked.save()
            record(actor, "user.change", locked, before=before, after=_told(fields))
    except IntegrityError as error:
        raise UserExists(f"There is a user called {fields['username']} already.", attr="username") from error
    return locked


def _told(fields: dict[str, Any]) -> dict[str, object]:
    return {name: "(set)" if name == "password" else value for name, value in fields.items()}

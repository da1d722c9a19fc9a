"""API tokens: made once, shown once, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from refusals import Conflict, Malformed, NotPermitted
from workspaces.audit import Actor, record
from workspaces.models import ApiToken, Membership, User, Workspace

TOKEN_START = "mia_"  # noqa: S105 - what a token begins with
LAST_USE_GRAIN = timedelta(minutes=1)


class TokenNameTaken(Conflict):
    code = "token_name_taken"


class NotAMember(Conflict):
    code = "not_a_member"


def digest_of(token: str) -> str:
    """SHA-256 hex: enough for 256 random bits, and quick for each request."""
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(
    user: User,
    *,
    name: str,
    workspace: Workspace | None,
    scope: str = ApiToken.Scope.READ,
    expires_at: datetime | None = None,
    actor: Actor,
) -> tuple[ApiToken, str]:
    """Make a token and return it with its secret text, which is never to be had again.

    Raises:
        NotPermitted: an operator's token for somebody who is not one.
        NotAMember: the user is not in the workspace, so the token could do nothing.
        TokenNameTaken: the workspace has a usable token of that name.
        Malformed: the expiry is in the past.
    """
    if workspace is None and not user.is_staff:
        raise NotPermitted(f"{user} is not an operator. Name a workspace for the token.", attr="workspace")
    if workspace is not None and not Membership.objects.filter(workspace=workspace, user=user).exists():
        raise NotAMember(f"{user} is not a member of {workspace}, so the token could do nothing. Add them first.")
    if expires_at is not None and expires_at <= timezone.now():
        raise Malformed("The expiry lies in the past. Choose a later time or none.", attr="expires_at")
    text = TOKEN_START + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                user=user,
                workspace=workspace,
                name=name,
                scope=scope,
                expires_at=expires_at,
                prefix=text[:12],
                digest=digest_of(text),
            )
            record(actor, "token.create", token, workspace=workspace, after={"name": name, "scope": scope})
    except IntegrityError as error:
        raise TokenNameTaken(
            f"A token called {name} exists already. Revoke it first or choose another name.", attr="name"
        ) from error
    return token, text


def revoke_token(token: ApiToken, *, actor: Actor) -> ApiToken:
    """End a token; doing it twice is fine."""
    with transaction.atomic():
        changed = ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
        if changed:
            record(actor, "token.revoke", token, workspace=token.workspace)
    token.refresh_from_db()
    return token


def find_usable(text: str) -> ApiToken | None:
    """The token behind ``text``, when it may be used now; notes its use (to the minute)."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user", "workspace__plan")
        .filter(Q(expires_at=None) | Q(expires_at__gt=now), digest=digest_of(text), revoked_at=None)
        .first()
    )
    if token is None or not token.user.is_active or (token.workspace_id is None and not token.user.is_staff):
        return None
    if token.last_used_at is None or token.last_used_at < now - LAST_USE_GRAIN:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token

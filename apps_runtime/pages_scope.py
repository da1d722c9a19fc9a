"""Who sees a tenant's page: signed in, a member, and of the role it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from apps_runtime.capabilities import capabilities_of
from refusals import Refusal
from workspaces.audit import Actor
from workspaces.models import User, Workspace
from workspaces.permissions import check_role, workspace_of
from workspaces.roles import Role

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Scope:
    """The workspace a page is about, and who looks at it."""

    workspace: Workspace
    role: Role
    user: User

    @property
    def actor(self) -> Actor:
        return Actor.person(self.user)

    @property
    def may_change(self) -> bool:
        return self.role.at_least(Role.DEVELOPER)

    @property
    def may_manage(self) -> bool:
        return self.role.at_least(Role.ADMIN)

    def context(self, section: str) -> dict[str, object]:
        """What every page of the workspace shows."""
        return {
            "scope": self,
            "workspace": self.workspace,
            "section": section,
            "capabilities": capabilities_of(self.workspace, self.role),
        }


Page = Callable[Concatenate[HttpRequest, Scope, P], HttpResponseBase]


def page_of(needed: Role = Role.VIEWER) -> Callable[[Page[P]], Callable[..., HttpResponseBase]]:
    """A view below ``/w/{slug}/``. Foreign workspaces are 404; a refusal becomes a message."""

    def decorate(view: Page[P]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def scoped(request: HttpRequest, slug: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            user = cast(User, request.user)
            found = workspace_of(user, slug, as_operator=user.is_staff)
            if found is None:
                raise Http404
            workspace, role = found
            try:
                check_role(role, needed, workspace)
                return view(request, Scope(workspace, role, user), *args, **kwargs)
            except Refusal as refusal:
                messages.error(request, refusal.detail)
                return redirect(request.headers.get("Referer") or reverse("pages:apps", args=[slug]))

        return login_required(scoped)

    return decorate

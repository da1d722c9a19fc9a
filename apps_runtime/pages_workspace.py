"""The tenant's pages of members and tokens."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps_runtime.pages_scope import Scope, page_of
from refusals import Malformed
from workspaces import members as membership
from workspaces.models import ApiToken, Membership, User
from workspaces.permissions import check_role
from workspaces.roles import Role
from workspaces.tokens import create_token, revoke_token


@require_GET
@page_of()
def members(request: HttpRequest, scope: Scope) -> HttpResponse:
    """Who is in the workspace."""
    rows = Membership.objects.filter(workspace=scope.workspace).select_related("user").order_by("user__username")[:500]
    return render(request, "pages/members.html", scope.context("members") | {"rows": rows, "roles": list(Role)})


@require_POST
@page_of(Role.ADMIN)
def member_add(request: HttpRequest, scope: Scope) -> HttpResponseBase:
    """Add a person who has an account here."""
    username = request.POST.get("username", "").strip()[:150]
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise Malformed(f"Nobody here is called {username or 'that'}. Ask the operator for an account first.")
    role = _role(request)
    membership.add_member(scope.workspace, user, role, actor=scope.actor, actor_role=scope.role)
    messages.success(request, f"{user} is a member now, as {role}.")
    return redirect("pages:members", scope.workspace.slug)


@require_POST
@page_of(Role.ADMIN)
def member_change(request: HttpRequest, scope: Scope, pk: int) -> HttpResponseBase:
    """Change a role, or remove the member."""
    row = get_object_or_404(Membership.objects.select_related("workspace", "user"), workspace=scope.workspace, pk=pk)
    if "remove" in request.POST:
        membership.remove_member(row, actor=scope.actor, actor_role=scope.role)
        messages.success(request, f"{row.user} is no member any more.")
    else:
        membership.change_role(row, _role(request), actor=scope.actor, actor_role=scope.role)
    return redirect("pages:members", scope.workspace.slug)


@require_http_methods(["GET", "POST"])
@page_of()
def tokens(request: HttpRequest, scope: Scope) -> HttpResponse:
    """One's own tokens; a new one's text is on this page once and never again."""
    text = ""
    if request.method == "POST":
        scope_of_token = request.POST.get("scope", "read")
        if scope_of_token not in ApiToken.Scope.values:
            raise Malformed("A token's scope is read or write.")
        if scope_of_token == ApiToken.Scope.WRITE:
            check_role(scope.role, Role.DEVELOPER, scope.workspace)
        name = request.POST.get("name", "").strip()[:60]
        if not name:
            raise Malformed("A token needs a name, to know it by later.")
        _, text = create_token(
            scope.user, name=name, workspace=scope.workspace, scope=scope_of_token, actor=scope.actor
        )
    rows = ApiToken.objects.filter(workspace=scope.workspace, user=scope.user).order_by("-pk")[:200]
    return render(request, "pages/tokens.html", scope.context("tokens") | {"rows": rows, "text": text})


@require_POST
@page_of()
def token_revoke(request: HttpRequest, scope: Scope, pk: int) -> HttpResponseBase:
    """End one of one's own tokens at once."""
    revoke_token(get_object_or_404(ApiToken, workspace=scope.workspace, user=scope.user, pk=pk), actor=scope.actor)
    messages.success(request, "The token is revoked.")
    return redirect("pages:tokens", scope.workspace.slug)


def _role(request: HttpRequest) -> Role:
    try:
        return Role(request.POST.get("role", ""))
    except ValueError as error:
        raise Malformed("Choose one of the roles viewer, developer, admin and owner.") from error

"""Who may do what: the caller's workspace, role and token scope, decided in one place."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from rest_framework.exceptions import NotFound
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from refusals import NotPermitted
from workspaces.audit import Actor
from workspaces.models import ApiToken, Membership, User, Workspace
from workspaces.roles import Role


class RoleTooLow(NotPermitted):
    code = "role_too_low"


class TokenReadOnly(NotPermitted):
    code = "token_read_only"


class OperatorsOnly(NotPermitted):
    code = "operators_only"


def token_of(request: Request) -> ApiToken | None:
    return request.auth if isinstance(request.auth, ApiToken) else None


def user_of(request: Request) -> User:
    """The signed-in caller; the permission classes have refused everybody else."""
    return cast(User, request.user)


def actor_of(request: Request) -> Actor:
    token = token_of(request)
    return Actor.person(user_of(request), token_name=token.name if token else "")


def is_operator(request: Request) -> bool:
    """Staff by session, or by a token that is bound to no workspace."""
    user = request.user
    token = token_of(request)
    return bool(user.is_authenticated and user.is_staff and (token is None or token.workspace_id is None))


def find_workspace(request: Request, slug: str) -> tuple[Workspace, Role]:
    """The workspace and the caller's role in it.

    Raises NotFound for what does not exist and for what is another's, alike.
    """
    token = token_of(request)
    if token is not None and token.workspace is not None and token.workspace.slug != slug:
        raise NotFound
    found = workspace_of(user_of(request), slug, as_operator=is_operator(request))
    if found is None:
        raise NotFound
    return found


def workspace_of(user: User, slug: str, *, as_operator: bool) -> tuple[Workspace, Role] | None:
    """The workspace and the user's role in it; an operator is as an owner. None: not theirs to see."""
    if as_operator:
        workspace = Workspace.objects.select_related("plan").filter(slug=slug).first()
        return (workspace, Role.OWNER) if workspace else None
    membership = Membership.objects.select_related("workspace__plan").filter(workspace__slug=slug, user=user).first()
    return (membership.workspace, Role(membership.role)) if membership else None


def check_scope(request: Request) -> None:
    """Raises TokenReadOnly when a read token asks for a change."""
    token = token_of(request)
    if request.method not in SAFE_METHODS and token is not None and token.scope != ApiToken.Scope.WRITE:
        raise TokenReadOnly(f"Token {token.name} may only read. Use one with the scope write.")


def check_role(role: Role, needed: Role, workspace: Workspace) -> None:
    """Raises RoleTooLow."""
    if not role.at_least(needed):
        raise RoleTooLow(
            f"This needs the role {needed} in workspace {workspace.slug}; yours is {role}. Ask an admin of it."
        )


class WorkspaceScoped(APIView):
    """A view under ``/workspaces/{workspace_slug}/``: resolves the workspace, checks the role.

    ``needs`` overrides, by action name or HTTP method, the role that is needed: viewer to
    read and developer to change otherwise.
    """

    needs: ClassVar[dict[str, Role]] = {}
    workspace: Workspace
    role: Role
    actor: Actor

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        check_scope(request)
        self.workspace, self.role = find_workspace(request, kwargs["workspace_slug"])
        self.actor = actor_of(request)
        check_role(self.role, self._needed(request), self.workspace)

    def _needed(self, request: Request) -> Role:
        default = Role.VIEWER if request.method in SAFE_METHODS else Role.DEVELOPER
        method = request.method or ""
        return self.needs.get(getattr(self, "action", None) or method, self.needs.get(method, default))


class OperatorPermission(BasePermission):
    """Only operators, and a token's scope holds for them too."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            return False
        if not is_operator(request):
            raise OperatorsOnly("This is for operators of the installation only.")
        check_scope(request)
        return True


class OperatorView(APIView):
    """A view under ``/admin/``."""

    permission_classes = [OperatorPermission]

    @property
    def actor(self) -> Actor:
        return actor_of(self.request)

"""The API of workspaces: what members see and do in theirs."""

from __future__ import annotations

from typing import ClassVar

from django.db.models import F, QuerySet, Value
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import members, settling, tokens
from workspaces.models import ApiToken, AuditEvent, Membership, Workspace
from workspaces.permissions import WorkspaceScoped, check_role, is_operator, token_of, user_of
from workspaces.roles import Role
from workspaces.serializers import (
    ApiTokenSerializer,
    AuditEventSerializer,
    MembershipSerializer,
    MeSerializer,
    NewTokenSerializer,
    RoleSerializer,
    TransferSerializer,
    WorkspaceNameSerializer,
    WorkspaceSerializer,
)


class MeView(APIView):
    @extend_schema(responses=MeSerializer, operation_id="me")
    def get(self, request: Request) -> Response:
        """Who the caller is, and the workspaces they are in."""
        token = token_of(request)
        memberships = Membership.objects.filter(user=user_of(request)).order_by("workspace__slug")
        if token is not None and token.workspace_id is not None:
            memberships = memberships.filter(workspace_id=token.workspace_id)
        answer = {
            "username": request.user.get_username(),
            "operator": is_operator(request),
            "token": token.name if token else None,
            "scope": token.scope if token else None,
            "workspaces": list(memberships.values("role", slug=F("workspace__slug"))),
        }
        return Response(MeSerializer(answer).data)


class WorkspaceListView(mixins.ListModelMixin, viewsets.GenericViewSet[Workspace]):
    """The caller's workspaces; for an operator, all of them."""

    queryset = Workspace.objects.none()
    serializer_class = WorkspaceSerializer
    filterset_fields = ["suspended"]
    search_fields = ["slug", "name"]
    ordering_fields = ["slug", "created_at"]

    def get_queryset(self) -> QuerySet[Workspace]:
        if is_operator(self.request):
            return Workspace.objects.annotate(caller_role=Value(Role.OWNER.value)).order_by("slug")
        token = token_of(self.request)
        mine = Workspace.objects.filter(memberships__user=user_of(self.request)).annotate(
            caller_role=F("memberships__role")
        )
        if token is not None and token.workspace_id is not None:
            mine = mine.filter(pk=token.workspace_id)
        return mine.order_by("slug")


class WorkspaceView(WorkspaceScoped):
    needs: ClassVar[dict[str, Role]] = {"PATCH": Role.ADMIN}

    @extend_schema(responses=WorkspaceSerializer)
    def get(self, request: Request, workspace_slug: str) -> Response:
        """One workspace."""
        return Response(WorkspaceSerializer(self.workspace, context={"role": self.role}).data)

    @extend_schema(request=WorkspaceNameSerializer, responses=WorkspaceSerializer)
    def patch(self, request: Request, workspace_slug: str) -> Response:
        """Change the display name."""
        given = WorkspaceNameSerializer(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        changed = settling.change_workspace(self.workspace, given.validated_data, actor=self.actor)
        return Response(WorkspaceSerializer(changed, context={"role": self.role}).data)


class TransferView(WorkspaceScoped):
    needs: ClassVar[dict[str, Role]] = {"POST": Role.OWNER}

    @extend_schema(request=TransferSerializer, responses={204: None})
    def post(self, request: Request, workspace_slug: str) -> Response:
        """Make another member the owner and oneself an admin."""
        given = TransferSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        members.transfer(self.workspace, given.validated_data["username"], actor=self.actor, owner=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class MemberViewSet(WorkspaceScoped, mixins.ListModelMixin, viewsets.GenericViewSet[Membership]):
    """People of the workspace and their roles."""

    needs: ClassVar[dict[str, Role]] = {
        "create": Role.ADMIN,
        "partial_update": Role.ADMIN,
        "destroy": Role.ADMIN,
    }
    queryset = Membership.objects.none()
    serializer_class = MembershipSerializer
    lookup_field = "username"
    lookup_value_regex = r"[\w.@+-]{1,150}"
    filterset_fields = ["role"]
    search_fields = ["user__username"]
    ordering_fields = ["created_at"]

    def get_queryset(self) -> QuerySet[Membership]:
        return Membership.objects.filter(workspace=self.workspace).select_related("user").order_by("user__username")

    def _one(self, username: str) -> Membership:
        return get_object_or_404(self.get_queryset(), user__username=username)

    def create(self, request: Request, workspace_slug: str) -> Response:
        """Add a person who has an account here."""
        given = MembershipSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        made = members.add_member(
            self.workspace,
            given.validated_data["user"],
            Role(given.validated_data.get("role", Role.VIEWER)),
            actor=self.actor,
            actor_role=self.role,
        )
        return Response(MembershipSerializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=RoleSerializer, responses=MembershipSerializer)
    def partial_update(self, request: Request, workspace_slug: str, username: str) -> Response:
        """Change a member's role."""
        given = RoleSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changed = members.change_role(
            self._one(username), Role(given.validated_data["role"]), actor=self.actor, actor_role=self.role
        )
        return Response(MembershipSerializer(changed).data)

    def destroy(self, request: Request, workspace_slug: str, username: str) -> Response:
        """Remove a member."""
        members.remove_member(self._one(username), actor=self.actor, actor_role=self.role)
        return Response(status=status.HTTP_204_NO_CONTENT)


class TokenViewSet(WorkspaceScoped, mixins.ListModelMixin, viewsets.GenericViewSet[ApiToken]):
    """The caller's own tokens of the workspace; admins see and revoke everybody's."""

    needs: ClassVar[dict[str, Role]] = {"create": Role.VIEWER, "destroy": Role.VIEWER}
    queryset = ApiToken.objects.none()
    serializer_class = ApiTokenSerializer
    lookup_field = "id"
    lookup_url_kwarg = "token_id"
    lookup_value_regex = r"\d{1,18}"
    filterset_fields = ["scope"]
    search_fields = ["name"]
    ordering_fields = ["created_at", "last_used_at", "expires_at"]

    def get_queryset(self) -> QuerySet[ApiToken]:
        rows = ApiToken.objects.filter(workspace=self.workspace).select_related("user")
        if not self.role.at_least(Role.ADMIN):
            rows = rows.filter(user=user_of(self.request))
        return rows.order_by("-id")

    @extend_schema(request=ApiTokenSerializer, responses={201: NewTokenSerializer})
    def create(self, request: Request, workspace_slug: str) -> Response:
        """Make a token that acts as the caller in this workspace. Its text is shown only in this answer."""
        given = ApiTokenSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        if given.validated_data.get("scope") == ApiToken.Scope.WRITE:
            check_role(self.role, Role.DEVELOPER, self.workspace)
        token, text = tokens.create_token(
            user_of(request), workspace=self.workspace, actor=self.actor, **given.validated_data
        )
        return Response(ApiTokenSerializer(token).data | {"token": text}, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, workspace_slug: str, token_id: str) -> Response:
        """Revoke a token at once."""
        tokens.revoke_token(get_object_or_404(self.get_queryset(), pk=token_id), actor=self.actor)
        return Response(status=status.HTTP_204_NO_CONTENT)


class AuditViewSet(WorkspaceScoped, mixins.ListModelMixin, viewsets.GenericViewSet[AuditEvent]):
    """Who did what in the workspace, newest first."""

    needs: ClassVar[dict[str, Role]] = {"list": Role.ADMIN}
    queryset = AuditEvent.objects.none()
    serializer_class = AuditEventSerializer
    filterset_fields = ["verb", "target_type"]
    search_fields = ["actor_name", "target_name"]
    ordering_fields = ["id"]

    def get_queryset(self) -> QuerySet[AuditEvent]:
        return AuditEvent.objects.filter(workspace=self.workspace).order_by("-id")

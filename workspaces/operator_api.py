"""The operators' API of plans, workspaces, users and the audit trail."""

from __future__ import annotations

from rest_framework import mixins, viewsets
from rest_framework.serializers import BaseSerializer

from plans.models import Plan
from workspaces import settling
from workspaces.models import AuditEvent, User, Workspace
from workspaces.people import change_user, create_user
from workspaces.permissions import OperatorView
from workspaces.plan_changes import change_plan, create_plan, delete_plan
from workspaces.serializers import (
    OperatorAuditEventSerializer,
    OperatorWorkspaceChangeSerializer,
    OperatorWorkspaceSerializer,
    PlanSerializer,
    UserSerializer,
)

HTTP_METHODS = ["get", "post", "patch", "delete", "head", "options"]


class PlanViewSet(OperatorView, viewsets.ModelViewSet[Plan]):
    """Plans: what the workspaces on them may do and hold."""

    queryset = Plan.objects.order_by("name")
    serializer_class = PlanSerializer
    http_method_names = HTTP_METHODS
    lookup_value_regex = r"\d{1,18}"
    filterset_fields = ["gpu_allowed", "security_profile"]
    search_fields = ["name", "description"]
    ordering_fields = ["name", "gpu_limit", "created_at"]

    def perform_create(self, serializer: BaseSerializer[Plan]) -> None:
        serializer.instance = create_plan(serializer.validated_data, actor=self.actor)

    def perform_update(self, serializer: BaseSerializer[Plan]) -> None:
        assert serializer.instance is not None
        serializer.instance = change_plan(serializer.instance, serializer.validated_data, actor=self.actor)

    def perform_destroy(self, instance: Plan) -> None:
        delete_plan(instance, actor=self.actor)


class OperatorWorkspaceViewSet(OperatorView, viewsets.ModelViewSet[Workspace]):
    """Workspaces with plan, overrides and effective limits."""

    queryset = Workspace.objects.select_related("plan").order_by("slug")
    serializer_class = OperatorWorkspaceSerializer
    http_method_names = HTTP_METHODS
    lookup_field = "slug"
    lookup_value_regex = r"[a-z0-9-]{1,40}"
    filterset_fields = ["suspended", "plan__name", "gpu_allowed"]
    search_fields = ["slug", "name"]
    ordering_fields = ["slug", "created_at"]

    def get_serializer_class(self) -> type[BaseSerializer[Workspace]]:
        return OperatorWorkspaceChangeSerializer if self.action == "partial_update" else OperatorWorkspaceSerializer

    def perform_create(self, serializer: BaseSerializer[Workspace]) -> None:
        fields = dict(serializer.validated_data)
        owner = fields.pop("owner", None)
        serializer.instance = settling.create_workspace(fields, owner=owner, actor=self.actor)

    def perform_update(self, serializer: BaseSerializer[Workspace]) -> None:
        assert serializer.instance is not None
        serializer.instance = settling.change_workspace(
            serializer.instance, serializer.validated_data, actor=self.actor
        )

    def perform_destroy(self, instance: Workspace) -> None:
        settling.delete_workspace(instance, actor=self.actor)


class UserViewSet(OperatorView, mixins.CreateModelMixin, mixins.UpdateModelMixin, viewsets.ReadOnlyModelViewSet[User]):
    """People. They are deactivated, not deleted: the audit trail names them."""

    queryset = User.objects.order_by("username")
    serializer_class = UserSerializer
    http_method_names = ["get", "post", "patch", "head", "options"]
    lookup_value_regex = r"\d{1,18}"
    filterset_fields = ["is_active", "is_staff"]
    search_fields = ["username", "email"]
    ordering_fields = ["username", "last_login"]

    def perform_create(self, serializer: BaseSerializer[User]) -> None:
        serializer.instance = create_user(serializer.validated_data, actor=self.actor)

    def perform_update(self, serializer: BaseSerializer[User]) -> None:
        assert serializer.instance is not None
        serializer.instance = change_user(serializer.instance, serializer.validated_data, actor=self.actor)


class OperatorAuditViewSet(OperatorView, mixins.ListModelMixin, viewsets.GenericViewSet[AuditEvent]):
    """Everything anybody changed, newest first."""

    serializer_class = OperatorAuditEventSerializer
    filterset_fields = ["verb", "target_type", "workspace__slug"]
    search_fields = ["actor_name", "target_name"]
    ordering_fields = ["id"]
    queryset = AuditEvent.objects.select_related("workspace").order_by("-id")

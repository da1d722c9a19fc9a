"""Plans, workspaces, people and tokens on the wire."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib.auth.password_validation import validate_password
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from plans.models import Plan, SecurityProfileChoices
from workspaces.models import ApiToken, AuditEvent, Membership, RoleChoices, User, Workspace
from workspaces.settling import OVERRIDES
from workspaces.strict_serializers import Strict, StrictModelSerializer


class PlanSerializer(StrictModelSerializer):
    class Meta:
        model = Plan
        fields = [
            "id",
            "name",
            "description",
            "gpu_allowed",
            "gpu_limit",
            "cpu_limit",
            "memory_limit",
            "app_limit",
            "security_profile",
            "max_lease_hours",
            "created_at",
            "updated_at",
        ]


class LimitsSerializer(serializers.Serializer[Any]):
    """Effective limits. CPU in millicores, memory in MiB; 0 = none, -1 = unlimited."""

    gpu_allowed = serializers.BooleanField()
    gpu_limit = serializers.IntegerField()
    cpu_limit = serializers.IntegerField()
    memory_limit = serializers.IntegerField()
    app_limit = serializers.IntegerField()
    security_profile = serializers.CharField()
    max_lease_hours = serializers.IntegerField()


class WorkspaceSerializer(serializers.ModelSerializer[Workspace]):
    """What a member sees of a workspace."""

    role = serializers.SerializerMethodField()

    class Meta:
        model = Workspace
        fields = ["slug", "name", "suspended", "role", "created_at"]
        read_only_fields = ["slug", "suspended", "created_at"]

    def get_role(self, workspace: Workspace) -> str:
        """The caller's role in it."""
        return str(getattr(workspace, "caller_role", "") or self.context.get("role", ""))


class WorkspaceNameSerializer(StrictModelSerializer):
    class Meta:
        model = Workspace
        fields = ["name"]


class InheritedChoiceField(serializers.ChoiceField):
    """A choice that ``null`` leaves to the plan, like every other override; stored as ""."""

    def run_validation(self, data: Any = empty) -> Any:
        return super().run_validation(data) or ""

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) or None


class OperatorWorkspaceSerializer(StrictModelSerializer):
    """A workspace with its overrides (null inherits) and the limits that come of them."""

    plan = serializers.SlugRelatedField(slug_field="name", queryset=Plan.objects.all())
    owner = serializers.SlugRelatedField(
        slug_field="username", queryset=User.objects.all(), write_only=True, required=False, allow_null=True
    )
    security_profile = InheritedChoiceField(choices=SecurityProfileChoices.choices, required=False, allow_null=True)
    effective = serializers.SerializerMethodField()

    class Meta:
        model = Workspace
        fields = ["id", "slug", "name", "plan", "owner", "suspended", *OVERRIDES, "effective", "created_at"]

    @extend_schema_field(LimitsSerializer)
    def get_effective(self, workspace: Workspace) -> dict[str, Any]:
        return asdict(workspace.limits)


class OperatorWorkspaceChangeSerializer(OperatorWorkspaceSerializer):
    """The same, changed: slug and owner are decided at creation."""

    class Meta(OperatorWorkspaceSerializer.Meta):
        fields = ["id", "slug", "name", "plan", "suspended", *OVERRIDES, "effective", "created_at"]
        read_only_fields = ["slug"]

    owner = None  # type: ignore[assignment]


class MembershipSerializer(StrictModelSerializer):
    username = serializers.SlugRelatedField(slug_field="username", source="user", queryset=User.objects.all())

    class Meta:
        model = Membership
        fields = ["username", "role", "created_at"]


class RoleSerializer(Strict):
    role = serializers.ChoiceField(choices=RoleChoices.choices)


class TransferSerializer(Strict):
    username = serializers.SlugRelatedField(slug_field="username", queryset=User.objects.all())


class ApiTokenSerializer(StrictModelSerializer):
    username = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "name",
            "prefix",
            "username",
            "scope",
            "expires_at",
            "last_used_at",
            "revoked_at",
            "created_at",
        ]
        read_only_fields = ["last_used_at", "revoked_at"]


class NewTokenSerializer(ApiTokenSerializer):
    """The only answer that ever holds the token itself."""

    token = serializers.CharField(read_only=True)

    class Meta(ApiTokenSerializer.Meta):
        fields = [*ApiTokenSerializer.Meta.fields, "token"]


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    class Meta:
        model = AuditEvent
        fields = ["id", "at", "actor_name", "verb", "target_type", "target_name", "before", "after"]


class OperatorAuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    workspace = serializers.CharField(source="workspace.slug", default=None, read_only=True, allow_null=True)

    class Meta:
        model = AuditEvent
        fields = [
            "id",
            "at",
            "actor_name",
            "workspace",
            "verb",
            "target_type",
            "target_name",
            "before",
            "after",
        ]


class UserSerializer(StrictModelSerializer):
    password = serializers.CharField(write_only=True, max_length=128, validators=[validate_password])

    class Meta:
        model = User
        fields = [
            "id",
            "username",
            "email",
            "first_name",
            "last_name",
            "is_active",
            "is_staff",
            "password",
            "last_login",
        ]
        read_only_fields = ["last_login"]


class MeSerializer(serializers.Serializer[Any]):
    """Who the caller is."""

    username = serializers.CharField()
    operator = serializers.BooleanField()
    token = serializers.CharField(allow_null=True)
    scope = serializers.CharField(allow_null=True)
    workspaces = serializers.ListField(child=serializers.DictField())

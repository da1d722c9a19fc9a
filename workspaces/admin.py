"""The console of plans, workspaces, people, tokens and the audit trail."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from plans.models import Plan
from workspaces import members, plan_changes, settling
from workspaces.admin_services import ReadOnlyAdmin, ServiceAdmin, actor_of, changed_fields
from workspaces.models import ApiToken, AuditEvent, Membership, User, Workspace
from workspaces.roles import Role
from workspaces.tokens import create_token, revoke_token

admin.site.unregister(Group)


@admin.register(Plan)
class PlanAdmin(ServiceAdmin[Plan]):
    list_display = ["name", "gpu_allowed", "gpu_limit", "cpu_limit", "memory_limit", "app_limit", "used_by"]
    list_filter = ["gpu_allowed", "security_profile"]
    search_fields = ["name", "description"]
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        return super().get_queryset(request).annotate(workspace_count=Count("workspaces"))

    @admin.display(description="workspaces", ordering="workspace_count")
    def used_by(self, plan: Plan) -> int:
        return plan.workspace_count  # type: ignore[attr-defined, no-any-return]

    def save_model(self, request: HttpRequest, obj: Plan, form: Any, change: bool) -> None:
        if change:
            plan_changes.change_plan(obj, changed_fields(form), actor=actor_of(request))
        else:
            made = plan_changes.create_plan(dict(form.cleaned_data), actor=actor_of(request))
            obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Plan) -> None:
        plan_changes.delete_plan(obj, actor=actor_of(request))


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ["user"]
    fields = ["user", "role"]


@admin.register(Workspace)
class WorkspaceAdmin(ServiceAdmin[Workspace]):
    list_display = ["slug", "name", "plan", "effective_gpu_limit", "suspended"]
    list_filter = ["suspended", "plan", "gpu_allowed"]
    list_select_related = ["plan"]
    search_fields = ["slug", "name"]
    autocomplete_fields = ["plan"]
    inlines = [MembershipInline]
    actions = ["suspend", "resume"]
    fieldsets = [
        (None, {"fields": ["slug", "name", "plan", "suspended"]}),
        (
            "Overrides (empty inherits the plan's value)",
            {"fields": [*settling.OVERRIDES], "classes": ["tab"]},
        ),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Workspace | None = None) -> list[str]:
        return ["slug"] if obj else []

    @admin.display(description="GPU limit")
    def effective_gpu_limit(self, workspace: Workspace) -> str:
        limit = workspace.limits.gpu_units
        return "unlimited" if limit == -1 else str(limit)

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        if change:
            settling.change_workspace(obj, changed_fields(form), actor=actor_of(request))
        else:
            made = settling.create_workspace(dict(form.cleaned_data), owner=None, actor=actor_of(request))
            obj.pk = made.pk

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        actor = actor_of(request)
        for line in formset.forms:
            if line in formset.deleted_forms:
                if line.instance.pk:
                    members.remove_member(line.instance, actor=actor, actor_role=Role.OWNER)
            elif line.has_changed() and line.instance.pk:
                members.change_role(line.instance, Role(line.cleaned_data["role"]), actor=actor, actor_role=Role.OWNER)
            elif line.has_changed():
                workspace = Workspace.objects.get(pk=form.instance.pk)
                members.add_member(
                    workspace,
                    line.cleaned_data["user"],
                    Role(line.cleaned_data["role"]),
                    actor=actor,
                    actor_role=Role.OWNER,
                )

    def delete_model(self, request: HttpRequest, obj: Workspace) -> None:
        settling.delete_workspace(obj, actor=actor_of(request))

    @admin.action(description="Suspend: nothing new starts, what runs goes on")
    def suspend(self, request: HttpRequest, queryset: QuerySet[Workspace]) -> None:
        self._set_suspended(request, queryset, True)

    @admin.action(description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Workspace]) -> None:
        self._set_suspended(request, queryset, False)

    def _set_suspended(self, request: HttpRequest, rows: QuerySet[Workspace], suspended: bool) -> None:
        actor = actor_of(request)
        self.for_each(
            request,
            rows,
            lambda row: settling.change_workspace(row, {"suspended": suspended}, actor=actor),
            "{count} workspace(s) " + ("suspended." if suspended else "resumed."),
        )


@admin.register(User)
class PersonAdmin(UserAdmin, ServiceAdmin[User]):  # type: ignore[type-arg, misc]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "is_staff", "is_active", "last_login"]
    actions = None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The audit trail names people: they are deactivated instead.
        return False


@admin.register(ApiToken)
class ApiTokenAdmin(ServiceAdmin[ApiToken]):
    list_display = ["name", "prefix", "user", "workspace", "scope", "expires_at", "last_used_at", "revoked_at"]
    list_filter = ["scope", "workspace"]
    list_select_related = ["user", "workspace"]
    search_fields = ["name", "prefix", "user__username"]
    autocomplete_fields = ["user", "workspace"]
    actions = ["revoke"]
    fields = ["user", "workspace", "name", "scope", "expires_at"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        token, text = create_token(**form.cleaned_data, actor=actor_of(request))
        obj.pk = token.pk
        messages.warning(request, f"Copy the token now, it is not shown again: {text}")

    @admin.action(description="Revoke", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        actor = actor_of(request)
        self.for_each(request, queryset, lambda row: revoke_token(row, actor=actor), "{count} token(s) revoked.")


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin[AuditEvent]):
    list_display = ["at", "actor_name", "verb", "target_type", "target_name", "workspace"]
    list_filter = ["verb", "target_type"]
    list_select_related = ["workspace"]
    search_fields = ["actor_name", "target_name", "verb"]
    date_hierarchy = "at"
    show_full_result_count = False

"""The console of apps, deployments and leases: to look at, and to stop or deploy by services."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import display

from apps_runtime import admission, lifecycle
from apps_runtime.app_list import apps_with_state
from apps_runtime.models import App, Deployment, DeploymentEvent, DeviceLease
from apps_runtime.timeline import Step, timeline_of
from workspaces.admin import WorkspaceAdmin
from workspaces.admin_services import ReadOnlyAdmin, actor_of
from workspaces.models import Workspace

STATE_LABELS = {
    "running": "success",
    "failed": "danger",
    "stopping": "warning",
    "stopped": "info",
    "superseded": "info",
}


@admin.register(App)
class AppAdmin(ReadOnlyAdmin[App]):
    list_display = ["name", "workspace", "shown_state", "gpu", "gpu_kind", "running_node", "why", "created_at"]
    list_filter = ["workspace", "desired_state", "gpu"]
    search_fields = ["name", "image", "workspace__slug"]
    actions = ["deploy", "stop"]
    exclude = ["env"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[App]:
        return apps_with_state()

    @display(description="state", label=STATE_LABELS)
    def shown_state(self, app: App) -> str:
        return app.state  # type: ignore[attr-defined, no-any-return]

    @admin.display(description="node")
    def running_node(self, app: App) -> str:
        return app.running_node or ""  # type: ignore[attr-defined]

    @admin.display(description="reason")
    def why(self, app: App) -> str:
        return app.reason if app.state == "failed" else ""  # type: ignore[attr-defined]

    @admin.action(description="Stop: the containers end, units are freed", permissions=["view"])
    def stop(self, request: HttpRequest, queryset: QuerySet[App]) -> None:
        actor = actor_of(request)
        self.for_each(
            request, queryset, lambda app: lifecycle.request_stop(app, actor=actor), "{count} app(s) will stop."
        )

    @admin.action(description="Deploy as declared", permissions=["view"])
    def deploy(self, request: HttpRequest, queryset: QuerySet[App]) -> None:
        actor = actor_of(request)
        self.for_each(
            request, queryset, lambda app: lifecycle.request_deploy(app, actor=actor), "{count} deploy(s) queued."
        )


def _lasted(step: Step) -> str:
    return "now" if step.seconds is None else f"{step.seconds:.1f} s"


class EventInline(TabularInline):
    model = DeploymentEvent
    fk_name = "deployment"
    fields = readonly_fields = ["at", "state", "code", "message", "operator_detail"]
    extra = max_num = 0
    can_delete = False
    ordering = ["id"]
    verbose_name_plural = "Events"


class LeaseInline(TabularInline):
    model = DeviceLease
    fk_name = "deployment"
    fields = readonly_fields = ["device", "slot", "created_at"]
    extra = max_num = 0
    can_delete = False
    verbose_name_plural = "Devices held"

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeviceLease]:
        return super().get_queryset(request).select_related("device")


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin[Deployment]):
    list_display = ["app", "number", "workspace", "shown_state", "gpu_units", "node", "reason_code", "created_at"]
    list_filter = ["state", "verification", "reason_code", "node", "workspace"]
    list_select_related = ["app", "workspace", "node"]
    search_fields = ["app__name", "workspace__slug", "node__name", "reason"]
    date_hierarchy = "created_at"
    show_full_result_count = False
    inlines = [EventInline, LeaseInline]
    fieldsets = [
        (None, {"fields": ["app", "number", "workspace", "node", "state", "reason", "operator_detail", "timeline"]}),
        (
            "Container",
            {
                "fields": ["engine_handle", "exit_code", "verification", "verification_note", "host_ports", "log_tail"],
                "classes": ["tab"],
            },
        ),
        ("Spec", {"fields": ["spec", "requested_by", "created_at", "started_at", "ended_at"], "classes": ["tab"]}),
    ]
    readonly_fields = ["timeline"]

    @display(description="state", label=STATE_LABELS)
    def shown_state(self, deployment: Deployment) -> str:
        return deployment.state

    @admin.display(description="timeline")
    def timeline(self, deployment: Deployment) -> SafeString:
        """Each state with how long it lasted."""
        return format_html_join(
            " → ",
            "{} ({})",
            (
                (step.state, f"{step.seconds:.1f} s" if step.seconds is not None else "now")
                for step in timeline_of(deployment)
            ),
        )


@admin.register(DeviceLease)
class DeviceLeaseAdmin(ReadOnlyAdmin[DeviceLease]):
    list_display = ["device", "slot", "node", "workspace", "app", "created_at"]
    list_filter = ["device__node", "deployment__workspace"]
    list_select_related = ["device__node", "deployment__app", "deployment__workspace"]
    search_fields = ["device__uuid", "device__model", "deployment__app__name", "deployment__workspace__slug"]

    @admin.display(description="node", ordering="device__node")
    def node(self, lease: DeviceLease) -> str:
        return lease.device.node.name

    @admin.display(description="workspace", ordering="deployment__workspace")
    def workspace(self, lease: DeviceLease) -> str:
        return lease.deployment.workspace.slug

    @admin.display(description="app")
    def app(self, lease: DeviceLease) -> str:
        return f"{lease.deployment.app.name} #{lease.deployment.number}"


admin.site.unregister(Workspace)


@admin.register(Workspace)
class WorkspaceWithUsageAdmin(WorkspaceAdmin):
    """The workspace's page with what it holds beside what it may hold."""

    change_form_outer_before_template = "admin/workspaces/limits.html"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        workspace = (
            Workspace.objects.select_related("plan").filter(pk=object_id).first() if object_id.isdigit() else None
        )
        context = {"limit_rows": admission.limit_rows(workspace) if workspace else [], "shown_workspace": workspace}
        return super().change_view(request, object_id, form_url, (extra_context or {}) | context)

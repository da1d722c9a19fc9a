"""The console of nodes and their devices."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from gpus import devices, nodes
from gpus.addresses import check_address
from gpus.models import GpuDevice, Node
from refusals import Refusal
from workspaces.admin_services import ReadOnlyAdmin, ServiceAdmin, actor_of, changed_fields

PEM_FIELDS = ("ca_cert", "client_cert", "client_key")


def _pem_field(label: str) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        help_text="PEM. Leave empty to keep what is stored.",
    )


class NodeForm(forms.ModelForm):  # type: ignore[type-arg]
    """A node's settings. TLS texts are written and never shown again."""

    ca_cert = _pem_field("CA certificate")
    client_cert = _pem_field("Client certificate")
    client_key = _pem_field("Client key")

    class Meta:
        model = Node
        fields = ["name", "engine", "address", "labels", "attach_mode", "probe_image"]
        widgets = {"labels": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def clean_address(self) -> str:
        try:
            return check_address(self.cleaned_data["address"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def settings(self) -> dict[str, Any]:
        """What the services are to be given."""
        fields = changed_fields(self)
        texts = {name: fields.pop(name) for name in PEM_FIELDS if name in fields}
        if texts:
            stored = self.instance.credentials or {}
            fields["credentials"] = {name: texts.get(name) or stored.get(name, "") for name in PEM_FIELDS}
        return fields


class DeviceInline(TabularInline):
    model = GpuDevice
    fk_name = "node"
    extra = 0
    max_num = 0
    can_delete = False
    verbose_name_plural = "GPU devices"
    fields = ["device", "memory", "state", "held_by", "enabled", "mode", "max_shares"]
    readonly_fields = ["device", "memory", "state", "held_by"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuDevice]:
        return (
            super()
            .get_queryset(request)
            .select_related("node", "parent")
            .prefetch_related("leases__deployment__app", "leases__deployment__workspace")
        )

    @admin.display(description="device")
    def device(self, device: GpuDevice) -> SafeString:
        return format_html("{}<br><small>{}</small>", device.model, device.uuid)

    @admin.display(description="memory")
    def memory(self, device: GpuDevice) -> str:
        return memory_of(device)

    @admin.display(description="state")
    def state(self, device: GpuDevice) -> str:
        return state_of(device)

    @admin.display(description="held by")
    def held_by(self, device: GpuDevice) -> SafeString | str:
        return holders_of(device)


def memory_of(device: GpuDevice) -> str:
    """Unknown is said, never shown as zero."""
    return f"{device.memory_mib:,} MiB" if device.memory_mib else f"unknown ({device.memory_note or 'not told'})"


def state_of(device: GpuDevice) -> str:
    if device.presence != GpuDevice.Presence.PRESENT:
        return str(device.get_presence_display())
    if device.health != GpuDevice.Health.OK:
        return f"Unhealthy: {device.health_reason}"
    return "MIG on: its instances are offered" if device.mig_enabled else "Well"


def holders_of(device: GpuDevice) -> SafeString | str:
    """Workspace and app of each lease, linked."""
    leases = list(device.leases.all())
    if not leases:
        return "free"
    return format_html_join(
        ", ",
        '<a href="{}">{}/{}</a>',
        (
            (
                reverse("admin:apps_runtime_deployment_change", args=[lease.deployment_id]),
                lease.deployment.workspace.slug,
                lease.deployment.app.name,
            )
            for lease in leases
        ),
    )


@admin.register(Node)
class NodeAdmin(ServiceAdmin[Node]):
    form = NodeForm
    list_display = ["name", "engine", "status", "cards", "enabled_cards", "held_cards", "probed", "problem"]
    list_filter = ["engine", "schedulable", "reachable", "gpu_capable", "last_probe_ok"]
    search_fields = ["name", "address"]
    inlines = [DeviceInline]
    actions = ["rescan", "cordon", "uncordon"]
    change_form_outer_before_template = "admin/gpus/node/panel.html"
    fieldsets = [
        (None, {"fields": ["name", "engine", "address", "labels"]}),
        ("Attaching and probing", {"fields": ["attach_mode", "probe_image"], "classes": ["tab"]}),
        ("TLS", {"fields": list(PEM_FIELDS), "classes": ["tab"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        return (
            super()
            .get_queryset(request)
            .annotate(
                card_count=Count("devices"),
                enabled_count=Count("devices", filter=Q(devices__enabled=True)),
                held_count=Count("devices", filter=Q(devices__held__gt=0)),
            )
        )

    def get_inlines(self, request: HttpRequest, obj: Node | None) -> list[Any]:
        return [DeviceInline] if obj else []

    @display(
        description="status",
        label={
            "ready": "success",
            "no GPUs": "warning",
            "cordoned": "warning",
            "unreachable": "danger",
            "unknown": "info",
        },
    )
    def status(self, node: Node) -> str:
        return status_of(node)

    @admin.display(description="cards", ordering="card_count")
    def cards(self, node: Node) -> int:
        return node.card_count  # type: ignore[attr-defined, no-any-return]

    @admin.display(description="enabled", ordering="enabled_count")
    def enabled_cards(self, node: Node) -> int:
        return node.enabled_count  # type: ignore[attr-defined, no-any-return]

    @admin.display(description="held", ordering="held_count")
    def held_cards(self, node: Node) -> int:
        return node.held_count  # type: ignore[attr-defined, no-any-return]

    @admin.display(description="last good probe", ordering="last_good_probe_at")
    def probed(self, node: Node) -> str:
        return f"{timesince(node.last_good_probe_at)} ago" if node.last_good_probe_at else "never"

    @admin.display(description="problem")
    def problem(self, node: Node) -> str:
        return node.last_probe_detail.split("\n", 1)[0] if node.last_probe_ok is False else ""

    def save_model(self, request: HttpRequest, obj: Node, form: Any, change: bool) -> None:
        actor = actor_of(request)
        if change:
            nodes.update_node(Node.objects.get(pk=obj.pk), form.settings(), actor=actor)
            return
        fields = {name: form.cleaned_data[name] for name in NodeForm.Meta.fields} | form.settings()
        obj.pk = nodes.register_node(fields, actor=actor).pk

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        for line in formset.forms:
            if line.has_changed() and line.instance.pk:
                device = GpuDevice.objects.get(pk=line.instance.pk)
                devices.set_device(device, actor=actor_of(request), **changed_fields(line))

    def delete_model(self, request: HttpRequest, obj: Node) -> None:
        nodes.remove_node(obj, actor=actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        actor = actor_of(request)
        self.for_each(request, queryset, lambda row: nodes.remove_node(row, actor=actor), "{count} node(s) removed.")

    # --- Actions -------------------------------------------------------------------------
    @admin.action(description="Rescan")
    def rescan(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        actor = actor_of(request)
        self.for_each(
            request, queryset, lambda row: nodes.request_rescan(row, actor=actor), "A probe of {count} node(s) is due."
        )

    @admin.action(description="Cordon: place nothing new, what runs goes on")
    def cordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._set_schedulable(request, queryset, False)

    @admin.action(description="Uncordon")
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._set_schedulable(request, queryset, True)

    def _set_schedulable(self, request: HttpRequest, rows: QuerySet[Node], schedulable: bool) -> None:
        actor = actor_of(request)
        self.for_each(
            request,
            rows,
            lambda row: nodes.set_schedulable(row, schedulable, actor=actor),
            "{count} node(s) " + ("uncordoned." if schedulable else "cordoned."),
        )

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("<int:node_id>/do/<str:verb>/", self.admin_site.admin_view(self.do_view), name="gpus_node_do"),
        ]
        return [*own, *super().get_urls()]

    def do_view(self, request: HttpRequest, node_id: int, verb: str) -> HttpResponse:
        """The buttons of a node's page, each a POST."""
        node = get_object_or_404(Node, pk=node_id)
        back = HttpResponseRedirect(reverse("admin:gpus_node_change", args=[node_id]))
        if request.method != "POST" or not self.has_change_permission(request, node):
            return back
        actor = actor_of(request)
        try:
            if verb == "rescan":
                nodes.request_rescan(node, actor=actor)
                messages.success(request, "A probe is due; this page shows its result when it is done.")
            elif verb in ("cordon", "uncordon"):
                nodes.set_schedulable(node, verb == "uncordon", actor=actor)
                messages.success(request, f"Node {node.name} is {verb}ed.")
        except Refusal as refusal:
            messages.error(request, refusal.detail)
        return back

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        node = Node.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        context = {"node": node, "status": status_of(node) if node else "", "cards": _board(node) if node else []}
        return super().change_view(request, object_id, form_url, (extra_context or {}) | context)


def status_of(node: Node) -> str:
    """One word for the node's light."""
    if node.reachable is None:
        return "unknown"
    if not node.reachable:
        return "unreachable"
    if not node.schedulable:
        return "cordoned"
    return "ready" if node.gpu_capable else "no GPUs"


def _board(node: Node) -> list[dict[str, Any]]:
    """The node's cards as tiles: what they are, how they do, who holds them."""
    devices = node.devices.order_by("index", "pk").prefetch_related(
        "leases__deployment__app", "leases__deployment__workspace"
    )
    return [
        {
            "device": device,
            "memory": memory_of(device),
            "state": state_of(device) if device.enabled else "Not enabled",
            "holders": holders_of(device),
            "well": device.offered,
        }
        for device in devices
    ]


@admin.register(GpuDevice)
class GpuDeviceAdmin(ReadOnlyAdmin[GpuDevice]):
    """All cards of the fleet, to search and filter; they are changed on their node's page."""

    list_display = ["model", "uuid", "node", "memory", "enabled", "mode", "held", "slots_free", "state", "held_by"]
    list_filter = ["enabled", "mode", "presence", "health", "model", "node"]
    list_select_related = ["node"]
    search_fields = ["uuid", "model", "pci_bus_id", "node__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuDevice]:
        return (
            super().get_queryset(request).prefetch_related("leases__deployment__app", "leases__deployment__workspace")
        )

    @admin.display(description="memory", ordering="memory_mib")
    def memory(self, device: GpuDevice) -> str:
        return memory_of(device)

    @admin.display(description="free", ordering="free_slots")
    def slots_free(self, device: GpuDevice) -> int:
        return int(device.free_slots) if device.offered else 0

    @display(description="state")
    def state(self, device: GpuDevice) -> str:
        return state_of(device)

    @admin.display(description="held by")
    def held_by(self, device: GpuDevice) -> SafeString | str:
        return holders_of(device)

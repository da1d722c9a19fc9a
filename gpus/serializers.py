"""Nodes and devices as operators read and write them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpus.models import MAX_SHARES, GpuDevice, Node
from workspaces.strict_serializers import Strict, StrictModelSerializer, Whole


class TlsSerializer(Whole):
    """PEM texts; stored encrypted and never given back."""

    ca_cert = serializers.CharField(max_length=20_000)
    client_cert = serializers.CharField(max_length=20_000, required=False, default="", allow_blank=True)
    client_key = serializers.CharField(max_length=20_000, required=False, default="", allow_blank=True)


class NodeSerializer(StrictModelSerializer):
    credentials = TlsSerializer(write_only=True, required=False, allow_null=True)
    has_credentials = serializers.SerializerMethodField()
    labels = serializers.DictField(child=serializers.CharField(max_length=255), required=False)
    devices_total = serializers.IntegerField(read_only=True)
    devices_enabled = serializers.IntegerField(read_only=True)
    devices_held = serializers.IntegerField(read_only=True)

    class Meta:
        model = Node
        fields = [
            "id",
            "name",
            "engine",
            "address",
            "credentials",
            "has_credentials",
            "labels",
            "schedulable",
            "drain_state",
            "attach_mode",
            "probe_image",
            "gpu_capable",
            "reachable",
            "inventory_stale",
            "last_probe_at",
            "last_probe_ok",
            "last_probe_error",
            "last_probe_detail",
            "last_good_probe_at",
            "probe_failures",
            "probe_requested_at",
            "last_seen_at",
            "facts",
            "devices_total",
            "devices_enabled",
            "devices_held",
            "created_at",
        ]
        read_only_fields = [
            "schedulable",
            "drain_state",
            "gpu_capable",
            "reachable",
            "last_probe_at",
            "last_probe_ok",
            "last_probe_error",
            "last_probe_detail",
            "last_good_probe_at",
            "probe_failures",
            "probe_requested_at",
            "last_seen_at",
            "facts",
        ]
        # Uniqueness is the service's matter, which answers 409.
        extra_kwargs = {"name": {"validators": Node._meta.get_field("name").validators[:1]}}

    def get_has_credentials(self, node: Node) -> bool:
        return bool(node.credentials)


class HolderSerializer(serializers.Serializer[Any]):
    """Who holds a slot of a device."""

    workspace = serializers.CharField()
    app = serializers.CharField()
    deployment = serializers.IntegerField()
    slot = serializers.IntegerField()
    since = serializers.DateTimeField()


class GpuDeviceSerializer(serializers.ModelSerializer[GpuDevice]):
    node = serializers.CharField(source="node.name", read_only=True)
    parent = serializers.CharField(source="parent.uuid", read_only=True, default=None, allow_null=True)  # type: ignore[assignment]
    holders = serializers.SerializerMethodField()

    class Meta:
        model = GpuDevice
        fields = [
            "id",
            "node",
            "uuid",
            "vendor",
            "model",
            "memory_mib",
            "memory_note",
            "index",
            "minor_number",
            "pci_bus_id",
            "parent",
            "mig_enabled",
            "mig_profile",
            "enabled",
            "mode",
            "max_shares",
            "held",
            "free_slots",
            "presence",
            "health",
            "health_reason",
            "utilization_percent",
            "memory_used_mib",
            "holders",
            "first_seen_at",
            "last_seen_at",
        ]
        read_only_fields = fields

    @extend_schema_field(HolderSerializer(many=True))
    def get_holders(self, device: GpuDevice) -> list[dict[str, Any]]:
        return [
            {
                "workspace": lease.deployment.workspace.slug,
                "app": lease.deployment.app.name,
                "deployment": lease.deployment.number,
                "slot": lease.slot,
                "since": lease.created_at,
            }
            for lease in device.leases.all()
        ]


class DeviceSettingsSerializer(Strict):
    """What an operator decides about a device; absent fields stay."""

    enabled = serializers.BooleanField(required=False)
    mode = serializers.ChoiceField(choices=GpuDevice.Mode.choices, required=False)
    max_shares = serializers.IntegerField(required=False, min_value=1, max_value=MAX_SHARES)


class RescanQuery(serializers.Serializer[Any]):
    wait = serializers.BooleanField(default=False, help_text="Answer 200 when the probe is done, not 202 at once.")

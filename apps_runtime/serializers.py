"""Apps and deployments on the wire. Shapes only: what depends on other rows is declaring's."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps_runtime.declaring import find_node, warnings_of
from apps_runtime.images import check_digest, check_image, check_tag
from apps_runtime.models import App, Deployment, DeploymentEvent
from apps_runtime.mounts import check_mount_path
from apps_runtime.quantities import format_cpu, format_memory, parse_cpu, parse_memory
from apps_runtime.timeline import timeline_of
from apps_runtime.wire_fields import CheckedText, Labels, Quantity, check_listed_once
from gpus.kinds import check_kind
from workspaces.models import DNS_LABEL
from workspaces.strict_serializers import Strict, Whole

MAX_GPUS = 64
CAPABILITIES = ["compute", "utility", "video", "graphics"]


class PortSerializer(Whole):
    container = serializers.IntegerField(min_value=1, max_value=65535)
    publish = serializers.BooleanField(default=False)
    protocol = serializers.ChoiceField(choices=["tcp", "udp"], default="tcp")


class MountSerializer(Whole):
    volume = serializers.CharField(max_length=40, validators=[DNS_LABEL])
    path = CheckedText(check_mount_path, max_length=255)
    read_only = serializers.BooleanField(default=False)  # type: ignore[assignment]


class AppSerializer(Strict):
    """An app as declared. ``cpu`` in cores or millicores, ``memory`` with a unit."""

    name = serializers.CharField(max_length=40, validators=[DNS_LABEL])
    labels = Labels(required=False)
    image = CheckedText(check_image, max_length=255)
    tag = CheckedText(check_tag, max_length=128, required=False, allow_blank=True)
    digest = CheckedText(check_digest, max_length=71, required=False, allow_blank=True)
    command = serializers.ListField(
        child=serializers.CharField(max_length=4096, allow_blank=True, trim_whitespace=False),
        required=False,
        max_length=256,
    )
    env = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True, trim_whitespace=False),
        required=False,
        help_text="A secret's value is never returned: it reads as null, and null, or leaving it out, keeps the "
        "stored one.",
    )
    secret_env = serializers.ListField(
        child=serializers.CharField(max_length=128), required=False, max_length=256, validators=[check_listed_once]
    )
    secret_refs = serializers.ListField(
        child=serializers.CharField(max_length=40, validators=[DNS_LABEL]),
        required=False,
        max_length=32,
        validators=[check_listed_once],
    )
    ports = PortSerializer(many=True, required=False, max_length=32)  # type: ignore[call-arg]
    mounts = MountSerializer(many=True, required=False, max_length=32)  # type: ignore[call-arg]
    health_command = serializers.ListField(
        child=serializers.CharField(max_length=4096, allow_blank=True, trim_whitespace=False),
        required=False,
        max_length=64,
    )
    cpu = Quantity(parse_cpu, format_cpu, source="cpu_millis", required=False, allow_null=True)
    memory = Quantity(parse_memory, format_memory, source="memory_mib", required=False, allow_null=True)
    gpu = serializers.IntegerField(required=False, min_value=0, max_value=MAX_GPUS)
    gpu_kind = CheckedText(check_kind, required=False, allow_blank=True, max_length=64)
    gpu_capabilities = serializers.ListField(
        child=serializers.ChoiceField(choices=CAPABILITIES),
        required=False,
        max_length=4,
        validators=[check_listed_once],
    )
    runtime = serializers.ChoiceField(choices=App.Runtime.choices, required=False)
    replicas = serializers.IntegerField(required=False, min_value=1, max_value=100)
    node = serializers.CharField(required=False, allow_null=True, max_length=40)

    def validate_node(self, name: str | None) -> object:
        return find_node(name) if name else None

    def validate_ports(self, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        keys = [(port["container"], port["protocol"]) for port in ports]
        if len(set(keys)) != len(keys):
            raise serializers.ValidationError("A port is listed twice.")
        return [dict(port) for port in ports]

    def validate_mounts(self, mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        paths = [mount["path"] for mount in mounts]
        if len(set(paths)) != len(paths):
            raise serializers.ValidationError("Two volumes are mounted at one path.")
        return [dict(mount) for mount in mounts]

    def to_representation(self, app: App) -> dict[str, Any]:
        told = super().to_representation(app)
        told["env"] = {key: None if key in app.secret_env else value for key, value in app.env.items()}
        return told


class AppDetailSerializer(AppSerializer):
    """An app with how it is doing."""

    state = serializers.CharField(read_only=True, help_text="Of the latest deployment; `new` before the first.")
    reason_code = serializers.CharField(read_only=True)
    reason = serializers.CharField(read_only=True)
    latest = serializers.IntegerField(read_only=True, allow_null=True, help_text="Number of the latest deployment.")
    running_node = serializers.CharField(read_only=True, allow_null=True)
    desired_state = serializers.CharField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)


class AppAnswerSerializer(AppDetailSerializer):
    """One app, with what its declaration may still surprise by."""

    warnings = serializers.SerializerMethodField()

    def get_warnings(self, app: App) -> list[str]:
        return warnings_of(app)


class AppChangeSerializer(AppSerializer):
    """Any of an app's fields but its name."""

    name = None  # type: ignore[assignment]


class GrantedDeviceSerializer(serializers.Serializer[Any]):
    uuid = serializers.CharField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField(allow_null=True)
    shared = serializers.BooleanField()


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    """One attempt to run an app."""

    app = serializers.CharField(source="app.name", read_only=True)
    node = serializers.CharField(source="node.name", read_only=True)
    image = serializers.SerializerMethodField()
    gpu_kind = serializers.SerializerMethodField()
    devices = serializers.SerializerMethodField()

    class Meta:
        model = Deployment
        fields = [
            "app",
            "number",
            "state",
            "exit_to",
            "reason_code",
            "reason",
            "exit_code",
            "image",
            "gpu_units",
            "gpu_kind",
            "devices",
            "verification",
            "verification_note",
            "node",
            "host_ports",
            "requested_by",
            "created_at",
            "started_at",
            "ended_at",
        ]

    def get_image(self, deployment: Deployment) -> str:
        return str(deployment.spec["image"])

    def get_gpu_kind(self, deployment: Deployment) -> str:
        return str(deployment.spec["gpu_kind"])

    @extend_schema_field(GrantedDeviceSerializer(many=True))
    def get_devices(self, deployment: Deployment) -> list[dict[str, Any]]:
        """What it holds now; empty once it has ended."""
        return [
            {
                "uuid": lease.device.uuid,
                "model": lease.device.model,
                "memory_mib": lease.device.memory_mib,
                "shared": lease.device.mode == "shared",
            }
            for lease in deployment.leases.all()
        ]


class StepSerializer(serializers.Serializer[Any]):
    state = serializers.CharField()
    at = serializers.DateTimeField()
    message = serializers.CharField(allow_blank=True)
    seconds = serializers.FloatField(allow_null=True, help_text="How long it lasted; null: it is in it now.")


class DeploymentDetailSerializer(DeploymentSerializer):
    """An attempt with the states it went through, oldest first."""

    history = serializers.SerializerMethodField()

    class Meta(DeploymentSerializer.Meta):
        fields = [*DeploymentSerializer.Meta.fields, "history"]

    @extend_schema_field(StepSerializer(many=True))
    def get_history(self, deployment: Deployment) -> Any:
        return StepSerializer(timeline_of(deployment), many=True).data


class EventSerializer(serializers.ModelSerializer[DeploymentEvent]):
    """A line of an app's history, in words for tenants."""

    deployment = serializers.IntegerField(source="deployment.number", read_only=True, default=None, allow_null=True)

    class Meta:
        model = DeploymentEvent
        fields = ["id", "at", "deployment", "state", "code", "message"]


class NodeFitSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    fits = serializers.BooleanField()
    code = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)


class FitSerializer(serializers.Serializer[Any]):
    """Whether an app could start now: entitlement first, then node by node."""

    fits = serializers.BooleanField()
    code = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    nodes = NodeFitSerializer(many=True)


class ManifestSerializer(Strict):
    manifest = serializers.CharField(trim_whitespace=False, max_length=256 * 1024, help_text="YAML documents.")


class ManifestChangeSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    name = serializers.CharField()
    action = serializers.ChoiceField(choices=["create", "update", "unchanged"])
    changes = serializers.DictField(help_text="Field to {before, after}; secrets masked.")
    warnings = serializers.ListField(child=serializers.CharField())
    fit = FitSerializer(allow_null=True)
    deployment = serializers.IntegerField(allow_null=True)


class ManifestResultSerializer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    items = ManifestChangeSerializer(many=True)


class CapabilitiesSerializer(serializers.Serializer[Any]):
    """What the workspace may ask for. ``gpu`` is absent where it may not ask for GPUs."""

    workspace = serializers.CharField()
    role = serializers.CharField()
    suspended = serializers.BooleanField()
    apps = serializers.DictField()
    cpu = serializers.DictField()
    memory = serializers.DictField()
    security_profile = serializers.CharField()
    gpu = serializers.DictField(required=False)

"""Volumes, secrets and registry credentials on the wire."""

from __future__ import annotations

from rest_framework import serializers

from apps_runtime.images import check_server
from apps_runtime.models import Registry, Secret, Volume
from apps_runtime.wire_fields import Labels
from workspaces.models import DNS_LABEL
from workspaces.strict_serializers import Strict, StrictModelSerializer


class VolumeSerializer(StrictModelSerializer):
    labels = Labels(required=False)

    class Meta:
        model = Volume
        fields = ["name", "labels", "created_at"]
        extra_kwargs = {"name": {"validators": [DNS_LABEL]}}


class VolumeChangeSerializer(Strict):
    """All that can change about a volume."""

    labels = Labels()


class SecretSerializer(StrictModelSerializer):
    """Values are written and never read back; ``keys`` names them."""

    data = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), write_only=True
    )
    keys = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Secret
        fields = ["name", "data", "keys", "created_at", "updated_at"]
        extra_kwargs = {"name": {"validators": [DNS_LABEL]}}


class RegistrySerializer(StrictModelSerializer):
    password = serializers.CharField(write_only=True, max_length=4096, trim_whitespace=False)

    class Meta:
        model = Registry
        fields = ["name", "server", "username", "password", "created_at", "updated_at"]
        extra_kwargs = {"name": {"validators": [DNS_LABEL]}}

    def validate_server(self, server: str) -> str:
        try:
            return check_server(server)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error

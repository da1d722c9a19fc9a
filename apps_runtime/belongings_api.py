"""The tenants' API of volumes, secrets and registry credentials."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from apps_runtime import belongings
from apps_runtime.belongings_serializers import (
    RegistrySerializer,
    SecretSerializer,
    VolumeChangeSerializer,
    VolumeSerializer,
)
from apps_runtime.models import Registry, Secret, Volume
from workspaces.permissions import WorkspaceScoped

NAME = r"[a-z0-9][a-z0-9-]{0,39}"


class VolumeViewSet(
    WorkspaceScoped,
    mixins.CreateModelMixin,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet[Volume],
):
    """Named volumes. Their data lives on the nodes where apps that mount them have run."""

    queryset = Volume.objects.none()
    serializer_class = VolumeSerializer
    lookup_field = "name"
    lookup_value_regex = NAME
    search_fields = ["name"]
    ordering_fields = ["name", "created_at"]

    def get_queryset(self) -> QuerySet[Volume]:
        return Volume.objects.filter(workspace=self.workspace).order_by("name")

    def perform_create(self, serializer: BaseSerializer[Volume]) -> None:
        serializer.instance = belongings.create_volume(self.workspace, serializer.validated_data, actor=self.actor)

    @extend_schema(request=VolumeChangeSerializer, responses=VolumeSerializer)
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Replace the labels."""
        given = VolumeChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        volume = belongings.change_volume(self.get_object(), given.validated_data["labels"], actor=self.actor)
        return Response(VolumeSerializer(volume).data)

    def perform_destroy(self, instance: Volume) -> None:
        belongings.delete_volume(instance, actor=self.actor)


class SecretViewSet(
    WorkspaceScoped,
    mixins.CreateModelMixin,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet[Secret],
):
    """Secrets: written, never read back."""

    queryset = Secret.objects.none()
    serializer_class = SecretSerializer
    lookup_field = "name"
    lookup_value_regex = NAME
    search_fields = ["name"]
    ordering_fields = ["name", "updated_at"]

    def get_queryset(self) -> QuerySet[Secret]:
        return Secret.objects.filter(workspace=self.workspace).order_by("name")

    def perform_create(self, serializer: BaseSerializer[Secret]) -> None:
        serializer.instance = belongings.create_secret(self.workspace, serializer.validated_data, actor=self.actor)

    def perform_destroy(self, instance: Secret) -> None:
        belongings.delete_secret(instance, actor=self.actor)

    @extend_schema(request=SecretSerializer, responses=SecretSerializer)
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Replace the values; apps take them up at their next deploy."""
        given = SecretSerializer(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        secret = self.get_object()
        if "data" in given.validated_data:
            secret = belongings.change_secret(secret, given.validated_data["data"], actor=self.actor)
        return Response(SecretSerializer(secret).data, status=status.HTTP_200_OK)


class RegistryViewSet(WorkspaceScoped, viewsets.ModelViewSet[Registry]):
    """Credentials for images of private registries; the password is never read back."""

    queryset = Registry.objects.none()
    serializer_class = RegistrySerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    lookup_field = "name"
    lookup_value_regex = NAME
    search_fields = ["name", "server"]
    ordering_fields = ["name", "server"]

    def get_queryset(self) -> QuerySet[Registry]:
        return Registry.objects.filter(workspace=self.workspace).order_by("name")

    def perform_create(self, serializer: BaseSerializer[Registry]) -> None:
        serializer.instance = belongings.create_registry(self.workspace, serializer.validated_data, actor=self.actor)

    def perform_update(self, serializer: BaseSerializer[Registry]) -> None:
        assert serializer.instance is not None
        serializer.instance = belongings.change_registry(
            serializer.instance, serializer.validated_data, actor=self.actor
        )

    def perform_destroy(self, instance: Registry) -> None:
        belongings.delete_registry(instance, actor=self.actor)

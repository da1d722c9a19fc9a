"""Manifests and capabilities over the API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps_runtime import applying, manifest
from apps_runtime.capabilities import capabilities_of
from apps_runtime.models import App
from apps_runtime.serializers import (
    AppSerializer,
    CapabilitiesSerializer,
    ManifestResultSerializer,
    ManifestSerializer,
)
from workspaces.permissions import WorkspaceScoped
from workspaces.strict_json import StrictJSONParser


class YamlParser(BaseParser):
    """The body is the manifest itself."""

    media_type = "application/yaml"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> dict[str, str]:
        text = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        try:
            return {"manifest": text.decode()}
        except UnicodeDecodeError as error:
            raise ParseError("The manifest is no UTF-8 text.") from error


class ApplyQuery(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField(default=False, help_text="Say what would change and whether it fits.")
    deploy = serializers.BooleanField(default=False, help_text="Deploy what changed or is not running.")


class ManifestApplyView(WorkspaceScoped):
    parser_classes = [StrictJSONParser, YamlParser]

    @extend_schema(
        parameters=[ApplyQuery],
        request={"application/json": ManifestSerializer, "application/yaml": OpenApiTypes.OBJECT},
        responses=ManifestResultSerializer,
    )
    def post(self, request: Request, workspace_slug: str) -> Response:
        """Bring the workspace to what the manifest declares. All of it or nothing; twice is as once."""
        query = ApplyQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = ManifestSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changes = applying.apply(
            self.workspace, given.validated_data["manifest"], actor=self.actor, **query.validated_data
        )
        told = {"dry_run": query.validated_data["dry_run"], "items": changes}
        return Response(ManifestResultSerializer(told).data)


class AppManifestView(WorkspaceScoped):
    @extend_schema(
        responses={
            (200, "application/yaml"): OpenApiResponse(OpenApiTypes.OBJECT, "The manifest."),
            (200, "application/json"): ManifestSerializer,
        },
        parameters=[OpenApiParameter("app_name", OpenApiTypes.STR, OpenApiParameter.PATH)],
    )
    def get(self, request: Request, workspace_slug: str, app_name: str) -> HttpResponse | Response:
        """The app as a manifest that recreates it; values of secrets are left out (null).

        Whoever accepts JSON only gets it as `{"manifest": "…"}`, which can be applied as it is.
        """
        app = get_object_or_404(App.objects.select_related("node"), workspace=self.workspace, name=app_name)
        text = manifest.render(app.name, app.labels, AppSerializer(app).data)
        if request.headers.get("Accept", "").strip() == "application/json":
            return Response({"manifest": text})
        return HttpResponse(text, content_type="application/yaml; charset=utf-8")

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # YAML is written without a renderer, so that errors keep the API's JSON.
        return super().perform_content_negotiation(request, force=True)


class CapabilitiesView(WorkspaceScoped):
    @extend_schema(responses=CapabilitiesSerializer)
    def get(self, request: Request, workspace_slug: str) -> Response:
        """What this workspace may ask for and how much is used. No `gpu` block where it may not have any."""
        return Response(CapabilitiesSerializer(capabilities_of(self.workspace, self.role)).data)

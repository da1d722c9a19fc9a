"""The tenants' API of apps and their deployments. Thin: each view calls one service."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from apps_runtime import declaring, lifecycle
from apps_runtime.app_list import apps_with_state
from apps_runtime.fitting import fit_of
from apps_runtime.logs import read_logs
from apps_runtime.models import App, Deployment, DeploymentEvent
from apps_runtime.serializers import (
    AppAnswerSerializer,
    AppChangeSerializer,
    AppDetailSerializer,
    AppSerializer,
    DeploymentDetailSerializer,
    DeploymentSerializer,
    EventSerializer,
    FitSerializer,
)
from apps_runtime.specs import spec_of
from apps_runtime.states import State
from workspaces.permissions import WorkspaceScoped

NAME = r"[a-z0-9][a-z0-9-]{0,39}"


class AppFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=[(state.value, state.value) for state in State] + [("new", "new")])
    gpu = django_filters.BooleanFilter(field_name="gpu", method="by_gpu", label="asks for GPUs")
    node = django_filters.CharFilter(field_name="running_node")

    class Meta:
        model = App
        fields = ["state", "gpu", "node", "gpu_kind"]

    def by_gpu(self, apps: QuerySet[App], name: str, value: bool) -> QuerySet[App]:
        return apps.filter(gpu__gt=0) if value else apps.filter(gpu=0)


class LogQuery(serializers.Serializer[Any]):
    tail = serializers.IntegerField(default=200, min_value=0, max_value=10_000, help_text="Last lines to begin with.")
    follow = serializers.BooleanField(default=False, help_text="Go on until the container ends.")
    deployment = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Default: latest."
    )


class DeleteQuery(serializers.Serializer[Any]):
    purge = serializers.BooleanField(default=False, help_text="Delete volumes only it uses, too.")


class AppViewSet(WorkspaceScoped, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[App]):
    """Apps of the workspace: declare, deploy, look at, delete."""

    queryset = App.objects.none()
    serializer_class = AppDetailSerializer
    lookup_field = "name"
    lookup_value_regex = NAME
    filterset_class = AppFilter
    search_fields = ["name", "image"]
    ordering_fields = ["name", "created_at", "gpu", "state"]

    def get_queryset(self) -> QuerySet[App]:
        return apps_with_state(self.workspace)

    def _app(self, name: str) -> App:
        return get_object_or_404(App.objects.select_related("workspace__plan"), workspace=self.workspace, name=name)

    def _told(self, app: App) -> dict[str, Any]:
        return AppAnswerSerializer(self.get_queryset().get(pk=app.pk)).data

    def get_serializer_class(self) -> type[BaseSerializer[App]]:
        return AppAnswerSerializer if self.action == "retrieve" else AppDetailSerializer

    @extend_schema(request=AppSerializer, responses={201: AppAnswerSerializer})
    def create(self, request: Request, workspace_slug: str) -> Response:
        """Declare an app. Nothing runs before it is deployed."""
        given = AppSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        app = declaring.create_app(self.workspace, fields.pop("name"), fields, actor=self.actor)
        return Response(self._told(app), status=status.HTTP_201_CREATED)

    @extend_schema(request=AppChangeSerializer, responses=AppAnswerSerializer)
    def partial_update(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Change what is given. What runs is not touched: the next deploy takes it up."""
        given = AppChangeSerializer(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        return Response(self._told(declaring.update_app(self._app(name), given.validated_data, actor=self.actor)))

    @extend_schema(parameters=[DeleteQuery], responses={202: None})
    def destroy(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Stop and delete an app. It is gone once its container is."""
        query = DeleteQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        lifecycle.request_delete(self._app(name), actor=self.actor, **query.validated_data)
        return Response(status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses={202: DeploymentSerializer})
    @action(detail=True, methods=["post"])
    def deploy(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Run the app as it is declared now. What runs goes on until the new attempt takes over."""
        return _accepted(lifecycle.request_deploy(self._app(name), actor=self.actor))

    @extend_schema(request=None, responses={202: DeploymentSerializer})
    @action(detail=True, methods=["post"])
    def redeploy(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Deploy again, as declared now; refused when it was never deployed."""
        return _accepted(lifecycle.request_redeploy(self._app(name), actor=self.actor))

    @extend_schema(request=None, responses={202: DeploymentSerializer})
    @action(detail=True, methods=["post"])
    def start(self, request: Request, workspace_slug: str, name: str) -> Response:
        """A fresh deploy of the last deployment's spec; entitlement is checked anew."""
        return _accepted(lifecycle.request_start(self._app(name), actor=self.actor))

    @extend_schema(request=None, responses={202: DeploymentSerializer})
    @action(detail=True, methods=["post"])
    def restart(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Stop what runs and deploy the same spec again."""
        return _accepted(lifecycle.request_restart(self._app(name), actor=self.actor))

    @extend_schema(request=None, responses={202: DeploymentSerializer, 204: None})
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, workspace_slug: str, name: str) -> Response:
        """Stop the app; its units are free once the engine has confirmed that its container is gone."""
        latest = lifecycle.request_stop(self._app(name), actor=self.actor)
        return _accepted(latest) if latest else Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        parameters=[LogQuery],
        responses={(200, "text/plain"): OpenApiResponse(OpenApiTypes.STR, "The output.")},
    )
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def logs(self, request: Request, workspace_slug: str, name: str) -> StreamingHttpResponse:
        """Output of the latest (or the given) deployment."""
        query = LogQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        attempts = self._app(name).deployments.select_related("node")
        if "deployment" in wanted:
            attempts = attempts.filter(number=wanted["deployment"])
        deployment = attempts.first()
        if deployment is None:
            if "deployment" in wanted:
                raise NotFound
            return StreamingHttpResponse([], content_type="text/plain; charset=utf-8")
        chunks = read_logs(deployment, tail=wanted["tail"], follow=wanted["follow"])
        return StreamingHttpResponse(chunks, content_type="text/plain; charset=utf-8")

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # Logs are text whatever is asked for, written without a renderer; errors keep the API's JSON.
        return super().perform_content_negotiation(request, force=force or self.action == "logs")

    @extend_schema(responses=EventSerializer(many=True))
    @action(detail=True, methods=["get"], filter_backends=[])
    def events(self, request: Request, workspace_slug: str, name: str) -> Response:
        """The app's history, newest first: states entered, refusals, faults."""
        rows = DeploymentEvent.objects.filter(app=self._app(name)).select_related("deployment").order_by("-id")
        page = self.paginate_queryset(rows)  # type: ignore[arg-type]
        return self.get_paginated_response(EventSerializer(page, many=True).data)  # type: ignore[arg-type]

    @extend_schema(request=AppSerializer, responses=FitSerializer)
    @action(detail=False, methods=["post"], filter_backends=[], pagination_class=None)
    def fit(self, request: Request, workspace_slug: str) -> Response:
        """Whether an app of this shape could start now, and if not, why. Nothing is saved."""
        given = AppSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        draft = App.objects.filter(workspace=self.workspace, name=given.validated_data["name"]).first()
        draft = draft or App(name=given.validated_data["name"])
        draft.workspace = self.workspace
        for field, value in given.validated_data.items():
            setattr(draft, field, value)
        return Response(FitSerializer(fit_of(self.workspace, draft, spec_of(draft))).data)


class DeploymentFilter(django_filters.FilterSet):
    class Meta:
        model = Deployment
        fields = ["state", "reason_code", "verification"]


class DeploymentViewSet(
    WorkspaceScoped, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Deployment]
):
    """Attempts to run one app, newest first."""

    queryset = Deployment.objects.none()
    serializer_class = DeploymentSerializer
    lookup_field = "number"
    lookup_value_regex = r"\d{1,9}"
    filterset_class = DeploymentFilter
    ordering_fields = ["number", "created_at"]

    def get_serializer_class(self) -> type[BaseSerializer[Deployment]]:
        return DeploymentDetailSerializer if self.action == "retrieve" else DeploymentSerializer

    def get_queryset(self) -> QuerySet[Deployment]:
        app = get_object_or_404(App.objects.only("pk"), workspace=self.workspace, name=self.kwargs["app_name"])
        return (
            Deployment.objects.filter(app=app)
            .select_related("app", "node")
            .prefetch_related("leases__device")
            .order_by("-number")
        )

    @extend_schema(responses=EventSerializer(many=True))
    @action(detail=True, methods=["get"], filter_backends=[])
    def events(self, request: Request, workspace_slug: str, app_name: str, number: str) -> Response:
        """What happened to the attempt, oldest first."""
        rows = self.get_object().events.select_related("deployment").order_by("id")
        page = self.paginate_queryset(rows)  # type: ignore[arg-type]
        return self.get_paginated_response(EventSerializer(page, many=True).data)  # type: ignore[arg-type]


def _accepted(deployment: Deployment) -> Response:
    return Response(DeploymentSerializer(deployment).data, status=status.HTTP_202_ACCEPTED)

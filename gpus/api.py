"""The operators' API of nodes and devices."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from gpus import devices, nodes, rescanning
from gpus.models import GpuDevice, Node
from gpus.serializers import DeviceSettingsSerializer, GpuDeviceSerializer, NodeSerializer, RescanQuery
from workspaces.permissions import OperatorView


class NodeViewSet(OperatorView, viewsets.ModelViewSet[Node]):
    """Nodes with their preflight facts and the state of their inventory."""

    queryset = Node.objects.none()
    serializer_class = NodeSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    lookup_url_kwarg = "node_id"
    lookup_value_regex = r"\d{1,18}"
    filterset_fields = [
        "engine",
        "schedulable",
        "gpu_capable",
        "reachable",
        "last_probe_ok",
        "last_probe_error",
    ]
    search_fields = ["name", "address"]
    ordering_fields = ["name", "last_probe_at", "created_at"]

    def get_queryset(self) -> QuerySet[Node]:
        return Node.objects.annotate(
            devices_total=Count("devices"),
            devices_enabled=Count("devices", filter=Q(devices__enabled=True)),
            devices_held=Count("devices", filter=Q(devices__held__gt=0)),
        ).order_by("name")

    def perform_create(self, serializer: BaseSerializer[Node]) -> None:
        made = nodes.register_node(dict(serializer.validated_data), actor=self.actor)
        serializer.instance = self.get_queryset().get(pk=made.pk)

    def perform_update(self, serializer: BaseSerializer[Node]) -> None:
        assert serializer.instance is not None
        nodes.update_node(serializer.instance, dict(serializer.validated_data), actor=self.actor)
        serializer.instance = self.get_queryset().get(pk=serializer.instance.pk)

    def perform_destroy(self, instance: Node) -> None:
        nodes.remove_node(instance, actor=self.actor)

    def _answer(self, node: Node, status_code: int = status.HTTP_200_OK) -> Response:
        return Response(NodeSerializer(self.get_queryset().get(pk=node.pk)).data, status=status_code)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, node_id: str) -> Response:
        """Place nothing new on the node; what runs goes on."""
        return self._answer(nodes.set_schedulable(self.get_object(), False, actor=self.actor))

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, node_id: str) -> Response:
        """Let the node take new apps again."""
        return self._answer(nodes.set_schedulable(self.get_object(), True, actor=self.actor))

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, node_id: str) -> Response:
        """Cordon until an uncordon; `drain_state` is `drained` once nothing of ours lives on the node."""
        return self._answer(nodes.start_drain(self.get_object(), actor=self.actor))

    @extend_schema(request=None, parameters=[RescanQuery], responses={200: NodeSerializer, 202: NodeSerializer})
    @action(detail=True, methods=["post"], url_path="gpus/rescan", filter_backends=[], pagination_class=None)
    def rescan(self, request: Request, node_id: str) -> Response:
        """Ask for a probe of the node; `last_probe_at` moves when it is done."""
        query = RescanQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        if query.validated_data["wait"]:
            return self._answer(rescanning.rescan_now(self.get_object(), actor=self.actor))
        return self._answer(nodes.request_rescan(self.get_object(), actor=self.actor), status.HTTP_202_ACCEPTED)


class GpuDeviceViewSet(
    OperatorView, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[GpuDevice]
):
    """The cards and MIG instances of a node, and who holds them."""

    queryset = GpuDevice.objects.none()
    serializer_class = GpuDeviceSerializer
    lookup_url_kwarg = "gpu_id"
    lookup_value_regex = r"\d{1,18}"
    filterset_fields = ["enabled", "mode", "presence", "health", "vendor", "model", "mig_enabled"]
    search_fields = ["uuid", "model", "pci_bus_id"]
    ordering_fields = ["index", "model", "held", "memory_mib"]

    def get_queryset(self) -> QuerySet[GpuDevice]:
        node = get_object_or_404(Node.objects.only("pk"), pk=self.kwargs["node_id"])
        return (
            GpuDevice.objects.filter(node=node)
            .select_related("node", "parent")
            .prefetch_related("leases__deployment__app", "leases__deployment__workspace")
            .order_by("index", "pk")
        )

    @extend_schema(request=DeviceSettingsSerializer, responses=GpuDeviceSerializer)
    def partial_update(self, request: Request, node_id: str, gpu_id: str) -> Response:
        """Enable or disable a device, or change how it is shared."""
        given = DeviceSettingsSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changed = devices.set_device(self.get_object(), actor=self.actor, **given.validated_data)
        return Response(GpuDeviceSerializer(self.get_queryset().get(pk=changed.pk)).data)

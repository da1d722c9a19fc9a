"""Addresses of the operators' API of nodes and devices."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from gpus import api

router = SimpleRouter(trailing_slash=False)
router.register("nodes", api.NodeViewSet, "operator-node")
devices = SimpleRouter(trailing_slash=False)
devices.register("gpus", api.GpuDeviceViewSet, "operator-gpu")

urlpatterns = [
    path("admin/", include(router.urls)),
    path("admin/nodes/<int:node_id>/", include(devices.urls)),
]

"""``/api/v1/``: what there is, and where."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from workspaces.permissions import is_operator

OPEN = {"schema": "schema", "docs": "api-docs"}
SIGNED_IN = {"me": "me", "workspaces": "workspace-list"}
OPERATORS = {
    "admin/audit": "operator-audit-list",
    "admin/nodes": "operator-node-list",
    "admin/plans": "operator-plan-list",
    "admin/users": "operator-user-list",
    "admin/workspaces": "operator-workspace-list",
}


class IndexSerializer(serializers.Serializer[Any]):
    version = serializers.CharField()
    links = serializers.DictField(child=serializers.URLField())


class IndexView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(responses=IndexSerializer, operation_id="index")
    def get(self, request: Request) -> Response:
        """The addresses the caller may begin at."""
        names = dict(OPEN)
        if request.user.is_authenticated:
            names |= SIGNED_IN
        if is_operator(request):
            names |= OPERATORS
        links = {path: reverse(name, request=request) for path, name in names.items()}
        return Response(IndexSerializer({"version": "v1", "links": links}).data)

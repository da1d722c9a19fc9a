"""Addresses of workspaces, their members and tokens, and the operators' side of them."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from workspaces import api, operator_api

operators = SimpleRouter(trailing_slash=False)
operators.register("plans", operator_api.PlanViewSet, "operator-plan")
operators.register("workspaces", operator_api.OperatorWorkspaceViewSet, "operator-workspace")
operators.register("users", operator_api.UserViewSet, "operator-user")
operators.register("audit", operator_api.OperatorAuditViewSet, "operator-audit")

scoped = SimpleRouter(trailing_slash=False)
scoped.register("members", api.MemberViewSet, "member")
scoped.register("tokens", api.TokenViewSet, "token")
scoped.register("audit", api.AuditViewSet, "audit")

urlpatterns = [
    path("me", api.MeView.as_view(), name="me"),
    path("workspaces", api.WorkspaceListView.as_view({"get": "list"}), name="workspace-list"),
    path("workspaces/<slug:workspace_slug>", api.WorkspaceView.as_view(), name="workspace"),
    path("workspaces/<slug:workspace_slug>/transfer", api.TransferView.as_view(), name="workspace-transfer"),
    path("workspaces/<slug:workspace_slug>/", include(scoped.urls)),
    path("admin/", include(operators.urls)),
]

"""Addresses of apps, deployments, manifests and what belongs to a workspace."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from apps_runtime import api, belongings_api, manifest_api

scoped = SimpleRouter(trailing_slash=False)
scoped.register("apps", api.AppViewSet, "app")
scoped.register("volumes", belongings_api.VolumeViewSet, "volume")
scoped.register("secrets", belongings_api.SecretViewSet, "secret")
scoped.register("registries", belongings_api.RegistryViewSet, "registry")
attempts = SimpleRouter(trailing_slash=False)
attempts.register("deployments", api.DeploymentViewSet, "deployment")

urlpatterns = [
    path(
        "workspaces/<slug:workspace_slug>/apps/<slug:app_name>/manifest",
        manifest_api.AppManifestView.as_view(),
        name="app-manifest",
    ),
    path("workspaces/<slug:workspace_slug>/apps/<slug:app_name>/", include(attempts.urls)),
    path(
        "workspaces/<slug:workspace_slug>/manifests/apply",
        manifest_api.ManifestApplyView.as_view(),
        name="manifest-apply",
    ),
    path(
        "workspaces/<slug:workspace_slug>/capabilities",
        manifest_api.CapabilitiesView.as_view(),
        name="capabilities",
    ),
    path("workspaces/<slug:workspace_slug>/", include(scoped.urls)),
]

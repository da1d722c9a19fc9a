"""Addresses: the API, the console, health and metrics."""

from django.contrib import admin
from django.urls import include, path

from miabi import api_errors, health, metrics
from miabi.api_index import IndexView

handler404 = api_errors.not_found
handler500 = api_errors.server_error

urlpatterns = [
    path("", include("apps_runtime.pages_urls")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("api/v1", IndexView.as_view(), name="api-index"),
    path("api/v1/", include("miabi.api_urls")),
    path("admin/", admin.site.urls),
]

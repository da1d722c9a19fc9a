"""Everything under ``/api/v1/``."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularRedocView, SpectacularSwaggerView

urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerView.as_view(url_name="schema"), name="api-docs"),
    path("redoc", SpectacularRedocView.as_view(url_name="schema"), name="api-redoc"),
    path("", include("workspaces.api_urls")),
    path("", include("gpus.api_urls")),
    path("", include("apps_runtime.api_urls")),
]

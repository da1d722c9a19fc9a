"""``/api/v1/apps`` and ``/api/v1/apps/`` are the same address."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class TrailingSlashOptional:
    """Drops a trailing slash under ``/api/`` before routing, so no client trips over it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith("/api/") and request.path_info.endswith("/"):
            request.path_info = request.path_info.rstrip("/")
            request.path = request.path.rstrip("/")
        return self.get_response(request)

"""The one shape of every error answer, on top of drf-standardized-errors.

``{"type", "code", "detail", "errors": [{"code", "detail", "attr"}]}``; a refusal that
knows figures adds ``facts``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.views import defaults
from drf_standardized_errors.formatter import ExceptionFormatter
from drf_standardized_errors.handler import ExceptionHandler, exception_handler
from drf_standardized_errors.types import ErrorResponse, ExceptionHandlerContext
from rest_framework import exceptions, serializers
from rest_framework.response import Response

from refusals import Refusal


class RefusalAnswer(exceptions.APIException):
    """A :class:`Refusal` on its way through DRF."""

    def __init__(self, refusal: Refusal) -> None:
        self.status_code = refusal.status
        self.refusal = refusal
        super().__init__(detail=refusal.detail, code=refusal.code)


class DatabaseBusy(exceptions.APIException):
    status_code = 503
    default_code = "database_busy"
    default_detail = "The database cannot answer right now. Nothing was changed; try again in a moment."


class ApiExceptionHandler(ExceptionHandler):
    def convert_known_exceptions(self, exc: Exception) -> Exception:
        if isinstance(exc, Refusal):
            return RefusalAnswer(exc)
        if isinstance(exc, OperationalError):
            return DatabaseBusy()
        return super().convert_known_exceptions(exc)


class ApiErrorFormatter(ExceptionFormatter):
    def format_error_response(self, error_response: ErrorResponse) -> dict[str, Any]:
        errors = [asdict(error) for error in error_response.errors]
        first = errors[0] if errors else {"code": "error", "detail": "The request failed."}
        answer = {
            "type": error_response.type,
            "code": first["code"],
            "detail": first["detail"],
            "errors": errors,
        }
        if isinstance(self.exc, RefusalAnswer):
            refusal = self.exc.refusal
            errors[0]["attr"] = refusal.attr
            if refusal.facts:
                answer["facts"] = refusal.facts
        return answer


def handle(exc: Exception, context: ExceptionHandlerContext) -> Response | None:
    """DRF's ``EXCEPTION_HANDLER``."""
    return exception_handler(exc, context)


class ErrorItemSerializer(serializers.Serializer[Any]):
    """One problem; ``attr`` is the dotted path of the field it concerns."""

    code = serializers.CharField()
    detail = serializers.CharField()
    attr = serializers.CharField(allow_null=True)


class ErrorSerializer(serializers.Serializer[Any]):
    """The shape of every error answer; ``code`` and ``detail`` repeat the first problem."""

    type = serializers.ChoiceField(choices=["validation_error", "client_error", "server_error"])
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = ErrorItemSerializer(many=True)  # type: ignore[assignment]
    facts = serializers.DictField(required=False, help_text="Figures behind the sentence, e.g. limit and used.")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """404: the API's shape under ``/api/``, a page elsewhere."""
    if not request.path_info.startswith("/api/"):
        return defaults.page_not_found(request, exception)
    return _plain(404, "client_error", "not_found", "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponseBase:
    """500: the API's shape under ``/api/``, a page elsewhere."""
    if not request.path_info.startswith("/api/"):
        return defaults.server_error(request)
    return _plain(500, "server_error", "error", "Something went wrong here. It was logged.")


def _plain(status: int, kind: str, code: str, detail: str) -> JsonResponse:
    errors = [{"code": code, "detail": detail, "attr": None}]
    return JsonResponse({"type": kind, "code": code, "detail": detail, "errors": errors}, status=status)

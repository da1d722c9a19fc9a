"""The OpenAPI document: drf-spectacular, plus the error answers every operation may give."""

from __future__ import annotations

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema

from miabi.api_errors import ErrorSerializer

# 4xx/5xx answers come from shared machinery (authentication, parsing, rules), so they are
# declared once for all operations instead of beside each.
ERROR_STATUSES = {
    "400": "The request is malformed; `errors` names the fields.",
    "401": "No or unusable credentials.",
    "403": "The role, scope, plan or suspension does not allow it.",
    "404": "No such thing, or not yours to see.",
    "405": "The method is not offered here.",
    "406": "The asked media type is not offered.",
    "409": "A conflict with the present state, a quota or capacity.",
    "413": "The body is too large.",
    "415": "The body's media type is not accepted.",
    "422": "Refused by policy.",
    "429": "Too many requests.",
    "503": "Something behind the API cannot answer now.",
}


class ApiSchema(AutoSchema):
    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        responses: dict[str, Any] = super()._get_response_bodies(direction)
        if direction == "response":
            for status, description in ERROR_STATUSES.items():
                if status not in responses:
                    answer = self._get_response_for_code(ErrorSerializer, status)  # type: ignore[no-untyped-call]
                    responses[status] = {**answer, "description": description}
        return responses

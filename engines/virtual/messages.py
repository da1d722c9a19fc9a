"""What the server and the handlers of its paths exchange: requests, answers and refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.virtual.faults import Fault


class ApiError(Exception):
    """An answer with an error status and dockerd's ``{"message": ...}``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Request:
    """One request; names in ``headers`` are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    """The fault this very request falls under."""

    @property
    def json(self) -> dict[str, Any]:
        """The body's object. Raises ApiError for anything else."""
        if not self.body:
            raise ApiError(400, "invalid JSON: got EOF while reading request body")
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise ApiError(400, f"invalid JSON: {error}") from error
        if not isinstance(value, dict):
            raise ApiError(400, "invalid JSON: an object is expected")
        return value

    def flag(self, name: str) -> bool:
        """A boolean parameter; as in dockerd, any word but these means yes."""
        return self.query.get(name, "").strip().lower() not in ("", "0", "no", "false", "none")

    @property
    def upgrades(self) -> bool:
        """Whether the client wants the bare connection (it then reads the socket itself)."""
        return "upgrade" in self.headers.get("connection", "").lower() and "upgrade" in self.headers


@dataclass(slots=True)
class Answer:
    """``stream`` is sent as it comes: chunked, or ``raw`` until the connection closes."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    raw: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def answer_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode() + b"\n")


def read_filters(request: Request, allowed: frozenset[str]) -> dict[str, list[str]]:
    """The ``filters`` parameter in both of its forms: ``{"a": ["b"]}`` and ``{"a": {"b": true}}``.

    Raises:
        ApiError: no JSON, or a filter that the resource does not have.
    """
    try:
        filters = json.loads(request.query.get("filters") or "{}")
        read = {str(key): [str(value) for value in values] for key, values in filters.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ApiError(400, f"invalid filter: {error}") from error
    for name in read:
        if name not in allowed:
            raise ApiError(400, f"invalid filter '{name}'")
    return read


def has_labels(own: Mapping[str, str], wanted: list[str]) -> bool:
    """Whether ``own`` carries each of ``wanted``: a label's name, or ``name=value``."""
    for each in wanted:
        name, equals, value = each.partition("=")
        if name not in own or (equals and own[name] != value):
            return False
    return True

"""The one way Miabi says no: a stable code, an HTTP status and a sentence a person can act on.

Rules anywhere in the product raise a :class:`Refusal`; the API, the pages and the
commands turn it into their own form. No Django import: pure rules raise it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class Refusal(Exception):
    """A request that policy, quota or capacity does not allow.

    Attributes:
        code: stable identifier clients may compare with, snake_case.
        status: HTTP status that fits.
        detail: a sentence naming the thing (node, kind, limit, used, requested)
            and what to do next. Shown to whoever asked, so it never names what
            belongs to another tenant.
        attr: the request field at fault, or None.
        facts: machine-readable figures behind the sentence (limit, used, requested).
        operator_detail: what only operators may read, e.g. the engine's own words.
    """

    code: ClassVar[str] = "refused"
    status: ClassVar[int] = 409

    def __init__(
        self,
        detail: str,
        *,
        attr: str | None = None,
        facts: Mapping[str, object] | None = None,
        operator_detail: str = "",
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.attr = attr
        self.facts = dict(facts or {})
        self.operator_detail = operator_detail


class Malformed(Refusal):
    """The request cannot be read as what it claims to be (400)."""

    code = "invalid"
    status = 400


class NotPermitted(Refusal):
    """The caller's role does not allow it (403)."""

    code = "permission_denied"
    status = 403


class Conflict(Refusal):
    """The thing is not in a state that allows it (409)."""

    code = "conflict"
    status = 409


class PolicyRefusal(Refusal):
    """Well-formed, but the platform's policy does not allow it (422)."""

    code = "refused_by_policy"
    status = 422


class Unavailable(Refusal):
    """Something behind the API cannot answer now (503)."""

    code = "unavailable"
    status = 503

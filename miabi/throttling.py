"""How many requests one caller, one address without credentials, and one guesser may make.

The counts live in Django's cache, which is each web process's own unless it is configured
otherwise: with several processes the limits are that many times as high.
"""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle, SimpleRateThrottle


class AnonymousThrottle(AnonRateThrottle):
    """Of an address, without credentials: the schema and its pages."""

    scope = "anonymous"


class CallerThrottle(SimpleRateThrottle):
    """Of a token, or of a person's session."""

    scope = "caller"

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        if not request.user.is_authenticated:
            return None
        # DRF loads this module while its own views are loading: nothing that imports them may be imported here.
        who = f"user-{request.user.pk}" if request.auth is None else f"token-{request.auth.pk}"
        return self.cache_format % {"scope": self.scope, "ident": who}

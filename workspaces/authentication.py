"""``Authorization: Bearer mia_…`` for the API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from workspaces.models import ApiToken, User
from workspaces.tokens import find_usable


class BadTokenThrottle(SimpleRateThrottle):
    """Of an address, by tokens that do not work. DRF's other throttles come after authentication."""

    scope = "bad_token"

    def get_cache_key(self, request: Request, view: Any) -> str:
        return self.cache_format % {"scope": self.scope, "ident": self.get_ident(request)}


class ApiTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The token's user and the token; ``None`` when the header is not a bearer's.

        Raises:
            AuthenticationFailed: the token is unknown, expired or revoked.
            Throttled: it is, and too many from the same address were.
        """
        scheme, _, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = find_usable(text.strip().decode("latin-1"))
        if token is None:
            failures = BadTokenThrottle()
            if not failures.allow_request(request, None):  # type: ignore[arg-type]
                raise Throttled(failures.wait())
            raise AuthenticationFailed("This token is unknown, expired or revoked. Create a new one.", "bad_token")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="miabi"'


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = ApiTokenAuthentication
    name = "apiToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token, `mia_…`."}

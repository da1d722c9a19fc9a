"""What the tests of workspaces start from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.factories import make_operator, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, User, Workspace
from workspaces.tokens import create_token

Client = Callable[[User], APIClient]


@pytest.fixture
def workspace(db) -> Workspace:
    return make_workspace("vision")


@pytest.fixture
def signed_in() -> Client:
    """A client with a person's session."""

    def client(user: User) -> APIClient:
        made = APIClient()
        made.force_login(user)
        return made

    return client


@pytest.fixture
def operator(db, signed_in: Client) -> APIClient:
    return signed_in(make_operator("root"))


@pytest.fixture
def with_token():
    """A client with a new token of a person, for one workspace or (None) as operator."""

    def client(
        user: User, workspace: Workspace | None, scope: str = ApiToken.Scope.WRITE, *, name: str = "t"
    ) -> APIClient:
        _, text = create_token(user, name=name, workspace=workspace, scope=scope, actor=PLATFORM)
        made = APIClient()
        made.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
        return made

    return client

"""Nothing of another workspace can be read or guessed: tried on every endpoint that there is."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.factories import make_app, make_member, make_workspace
from tests.miabi.addresses import addresses
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, Membership
from workspaces.tokens import create_token

METHODS = ("get", "post", "patch", "put", "delete")
VALUES = {
    "app_name": "web",
    "name": "web",
    "number": "1",
    "username": "victim",
    "token_id": "1",
}

ENDPOINTS = sorted({address.template for address in addresses() if "{workspace_slug}" in address.template})


def test_the_walk_finds_the_endpoints():
    assert len(ENDPOINTS) > 20
    assert any("manifests/apply" in endpoint for endpoint in ENDPOINTS)


@pytest.fixture(params=["session", "token", "token of a member of both"])
def intruder(db, request) -> APIClient:
    """Somebody from another workspace, or whose token is another workspace's."""
    victims, others = make_workspace("victims"), make_workspace("others")
    make_member(victims, "owner", "victim")
    make_app(victims, "web")
    user = make_member(others, "owner", "intruder")
    client = APIClient()
    if request.param == "session":
        client.force_login(user)
        return client
    if request.param == "token of a member of both":
        Membership.objects.create(workspace=victims, user=user, role="owner")
    _, text = create_token(user, name="t", workspace=others, scope=ApiToken.Scope.WRITE, actor=PLATFORM)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_foreign_workspace_is_as_if_it_were_not_there(intruder, endpoint, method):
    there = "/" + endpoint.format(workspace_slug="victims", **VALUES)
    nowhere = "/" + endpoint.format(workspace_slug="no-such-workspace", **VALUES)
    answer, absent = getattr(intruder, method)(there, {}), getattr(intruder, method)(nowhere, {})
    assert answer.status_code in (404, 405)
    assert (answer.status_code, answer.json()) == (absent.status_code, absent.json())


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_without_credentials_nothing_is_answered(db, endpoint):
    make_workspace("victims")
    answer = APIClient().get("/" + endpoint.format(workspace_slug="victims", **VALUES))
    assert answer.status_code in (401, 405)


def test_a_list_that_is_asked_for_another_workspace_stays_with_its_own(intruder):
    for name in ("workspace", "workspace__slug", "workspace_slug", "workspace_id"):
        for things in ("apps", "volumes", "secrets", "registries"):
            answer = intruder.get(f"/api/v1/workspaces/others/{things}", {name: "victims"})
            assert answer.status_code == 200
            assert answer.json()["results"] == []

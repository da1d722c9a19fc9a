"""How many requests are too many, and for whom."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient
from rest_framework.throttling import SimpleRateThrottle

from tests.factories import make_member, make_workspace
from workspaces.audit import PLATFORM
from workspaces.tokens import create_token


@pytest.fixture
def limits(monkeypatch):
    """Limits of the test's own, counted from nothing."""
    cache.clear()

    def are(**rates: str) -> None:
        monkeypatch.setattr(
            SimpleRateThrottle, "THROTTLE_RATES", {"anonymous": None, "caller": None, "bad_token": None} | rates
        )

    yield are
    cache.clear()


def statuses(client: APIClient, address: str, times: int, **extra) -> list[int]:
    return [client.get(address, **extra).status_code for _ in range(times)]


def bearer(user, workspace, name: str) -> APIClient:
    _, text = create_token(user, name=name, workspace=workspace, actor=PLATFORM)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def test_a_caller_over_the_limit_is_told_when_to_come_back(db, limits):
    limits(caller="2/min")
    workspace = make_workspace()
    client = bearer(make_member(workspace), workspace, "ci")

    assert statuses(client, "/api/v1/me", 2) == [200, 200]
    answer = client.get("/api/v1/me")

    assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
    assert 0 < int(answer["Retry-After"]) <= 60


def test_each_token_has_its_own_limit(db, limits):
    limits(caller="1/min")
    workspace = make_workspace()
    user = make_member(workspace)
    first, second = (bearer(user, workspace, name) for name in ("one", "two"))
    assert [statuses(client, "/api/v1/me", 2) for client in (first, second)] == [[200, 429], [200, 429]]


def test_without_credentials_an_address_has_a_limit_and_callers_are_spared(db, limits):
    limits(anonymous="1/min")
    assert statuses(APIClient(), "/api/v1/", 2) == [200, 429]
    workspace = make_workspace()
    assert statuses(bearer(make_member(workspace), workspace, "ci"), "/api/v1/", 3) == [200, 200, 200]


def test_a_guesser_of_tokens_is_slowed_down_and_good_tokens_of_the_address_are_not(db, limits):
    limits(bad_token="2/min")
    workspace = make_workspace()
    good = bearer(make_member(workspace), workspace, "ci")

    assert statuses(APIClient(), "/api/v1/me", 3, HTTP_AUTHORIZATION="Bearer mia_guess") == [401, 401, 429]
    assert statuses(good, "/api/v1/me", 3) == [200, 200, 200]


def test_a_forged_forwarding_header_opens_no_new_account(db, limits):
    limits(anonymous="1/min")
    answers = [
        APIClient().get("/api/v1/", HTTP_X_FORWARDED_FOR=f"203.0.113.{number}").status_code for number in range(2)
    ]
    assert answers == [200, 429]

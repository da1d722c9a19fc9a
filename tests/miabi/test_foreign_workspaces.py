"""Nothing of another workspace can be read or guessed: tried on every endpoint that there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tests.factories import make_app, make_member, make_workspace

METHODS = ("get", "post", "patch", "put", "delete")
VALUES = {
    "app_name": "web",
    "name": "web",
    "number": "1",
    "username": "victim",
    "token_id": "1",
}


def endpoints(patterns=None, prefix: str = "") -> Iterator[str]:
    """Every address template below ``/api/v1/workspaces/{workspace_slug}``, found by itself."""
    for entry in patterns if patterns is not None else get_resolver().url_patterns:
        route = prefix + _route(entry)
        if isinstance(entry, URLResolver):
            yield from endpoints(entry.url_patterns, route)
        elif isinstance(entry, URLPattern) and "{workspace_slug}" in route:
            yield route


def _route(entry: URLPattern | URLResolver) -> str:
    import re

    text = str(entry.pattern).removeprefix("^").removesuffix("$").removesuffix("\\Z")
    text = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", text) if "(?P<" not in text else text
    return re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"{\1}", text)


ENDPOINTS = sorted(set(endpoints()))


def test_the_walk_finds_the_endpoints():
    assert len(ENDPOINTS) > 20
    assert any("manifests/apply" in endpoint for endpoint in ENDPOINTS)


@pytest.fixture
def intruder(db) -> APIClient:
    victims = make_workspace("victims")
    make_member(victims, "owner", "victim")
    make_app(victims, "web")
    client = APIClient()
    client.force_authenticate(make_member(make_workspace("others"), "owner", "intruder"))
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

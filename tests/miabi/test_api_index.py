"""Where a client begins: the index, the schema, the pages of documentation, the start page."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.factories import make_member, make_operator, make_workspace


def links(client: APIClient) -> dict[str, str]:
    return client.get("/api/v1/").json()["links"]


def test_the_index_of_a_stranger_leads_to_the_documentation_only(db):
    assert set(links(APIClient())) == {"schema", "docs"}


def test_the_index_of_a_member_leads_to_their_workspaces(db):
    client = APIClient()
    client.force_login(make_member(make_workspace()))
    assert set(links(client)) == {"schema", "docs", "me", "workspaces"}


def test_every_link_of_an_operators_index_leads_somewhere(db):
    client = APIClient()
    client.force_login(make_operator())
    found = links(client)
    assert {"admin/nodes", "admin/plans", "admin/workspaces", "admin/users", "admin/audit"} < set(found)
    for address in found.values():
        assert client.get(address).status_code == 200, address


@pytest.mark.parametrize("address", ["/api/v1", "/api/v1/", "/api/v1/schema", "/api/v1/schema/", "/api/v1/docs/"])
def test_a_trailing_slash_makes_no_difference(db, address):
    assert APIClient().get(address).status_code == 200


@pytest.mark.parametrize("address", ["/api/v1/docs", "/api/v1/redoc"])
def test_the_documentation_pages_load_nothing_from_elsewhere(db, address):
    page = APIClient().get(address).content.decode()
    assert "/static/drf_spectacular_sidecar/" in page
    assert "//cdn." not in page
    assert 'src="http' not in page


def test_what_is_not_there_is_told_in_the_api_s_own_shape(db):
    answer = APIClient().get("/api/v1/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert set(answer.json()) == {"type", "code", "detail", "errors"}


def test_the_start_page_leads_an_operator_to_the_console(db):
    client = APIClient()
    client.force_login(make_operator())
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")


def test_the_start_page_leads_a_stranger_to_sign_in(db):
    answer = APIClient().get("/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login")

"""Odd values in paths and queries: refused, never a fault."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from tests.factories import make_app, make_device, make_node, make_operator, make_workspace
from tests.miabi.addresses import Address, addresses

ODD = [
    "\x00",
    "..",
    "../..",
    "0",
    "-1",
    "9" * 17,
    "9" * 18,
    "9" * 40,
    "'",
    '"',
    "%",
    "é",
    "١",
    "a b",
    "a\nb",
    "a" * 300,
]
API = sorted((address for address in addresses() if address.template.startswith("api/v1/")), key=str)
WITH_PARAMETERS = [address for address in API if "{" in address.template]
QUERIES = [
    "page=0",
    "page=x",
    "page=" + "9" * 40,
    "page_size=-1",
    "page_size=x",
    "ordering=password",
    "ordering=-user__password,,",
    "search=%00",
    "search=%27%22%25_",
    "search=" + "a" * 3000,
    "suspended=perhaps&enabled=%00&state=x&engine=x&role=x&scope=x",
    "plan__name=%00&verb=%00&node=%00&gpu=%00",
]


@pytest.fixture
def operator(db) -> APIClient:
    workspace = make_workspace("demo")
    make_app(workspace, "web")
    make_device(make_node())
    client = APIClient(raise_request_exception=False)
    client.force_login(make_operator())
    return client


def test_the_walk_finds_the_addresses():
    assert len(WITH_PARAMETERS) > 30


@pytest.mark.parametrize("address", WITH_PARAMETERS, ids=str)
def test_an_odd_value_in_a_path_is_never_a_fault(operator, address: Address):
    names = re.findall(r"{(\w+)}", address.template)
    known = {"workspace_slug": "demo", "app_name": "web", "name": "web"}
    for odd_name in names:
        for odd in ODD:
            values = {name: known.get(name, "1") for name in names} | {odd_name: quote(odd, safe="")}
            for method in ("get", "patch", "delete"):
                answer = getattr(operator, method)(address.filled(**values), {})
                assert answer.status_code < 500, (method, odd_name, odd)


@pytest.mark.parametrize("address", API, ids=str)
@pytest.mark.parametrize("query", QUERIES)
def test_an_odd_query_is_never_a_fault(operator, address: Address, query):
    names = re.findall(r"{(\w+)}", address.template)
    known = {"workspace_slug": "demo", "app_name": "web", "name": "web"}
    values = {name: known.get(name, "1") for name in names}
    answer = operator.get(f"{address.filled(**values)}?{query}")
    assert answer.status_code < 500


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "1",
        '"text"',
        "{",
        "\x00",
        "\xff",
        '{"a": 1e999}',
        pytest.param('{"name": ' + "[" * 5000, id="never closed"),
        pytest.param('{"name": ' + "[" * 900 + "]" * 900 + "}", id="deep"),
        pytest.param('{"name": ' + "[" * 90000 + "]" * 90000 + "}", id="bottomless"),
        '{"\\ud800": 1}',
        '{"name": "\\udfff"}',
        '{"name": {"a": ["\\u0000"]}}',
        '{"labels": {"\\u0000": "x"}}',
    ],
)
@pytest.mark.parametrize("address", ["admin/plans", "admin/nodes", "admin/workspaces", "workspaces/demo/apps"])
def test_a_body_that_is_no_object_is_malformed(operator, address, body):
    answer = operator.post(f"/api/v1/{address}", body.encode("latin-1"), content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["type"] in ("validation_error", "client_error")

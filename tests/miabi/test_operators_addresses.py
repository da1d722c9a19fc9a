"""Operators' addresses, all that there are, are closed to everybody else."""

from __future__ import annotations

import re

import pytest
from rest_framework.test import APIClient

from tests.factories import make_device, make_member, make_node, make_operator, make_workspace
from tests.miabi.addresses import Address, addresses
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, Membership
from workspaces.tokens import create_token

OPERATORS = sorted((address for address in addresses() if address.template.startswith("api/v1/admin/")), key=str)
METHODS = ("get", "post", "patch", "put", "delete")


def test_the_walk_finds_the_addresses():
    assert len(OPERATORS) >= 14


@pytest.fixture(params=["an owner's session", "an owner's token", "an operator's token of a workspace"])
def outsider(db, request) -> APIClient:
    workspace = make_workspace()
    make_device(make_node())
    client = APIClient()
    if request.param == "an owner's session":
        client.force_login(make_member(workspace, "owner"))
        return client
    user = make_operator() if "operator" in request.param else make_member(workspace, "owner")
    Membership.objects.get_or_create(workspace=workspace, user=user, defaults={"role": "owner"})
    _, text = create_token(user, name="t", workspace=workspace, scope=ApiToken.Scope.WRITE, actor=PLATFORM)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


@pytest.mark.parametrize("address", OPERATORS, ids=str)
def test_who_is_no_operator_is_refused_whatever_they_ask(outsider, address: Address):
    filled = address.filled(**dict.fromkeys(re.findall(r"{(\w+)}", address.template), "1"))
    for method in METHODS:
        answer = getattr(outsider, method)(filled, {})
        assert (answer.status_code, answer.json()["code"]) == (403, "operators_only"), method

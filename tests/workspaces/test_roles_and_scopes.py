"""Who may do what: roles, token scopes, operators."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.factories import make_member, make_operator, make_workspace
from workspaces.models import ApiToken, Membership, Workspace
from workspaces.roles import Role

VISION = "/api/v1/workspaces/vision"


@pytest.mark.parametrize("own", Role)
@pytest.mark.parametrize("other", Role)
def test_roles_are_cumulative(own, other):
    order = ["viewer", "developer", "admin", "owner"]
    assert own.at_least(other) is (order.index(own) >= order.index(other))


@pytest.mark.parametrize(
    ("method", "address", "body", "needed"),
    [
        ("get", VISION, None, "viewer"),
        ("get", f"{VISION}/members", None, "viewer"),
        ("get", f"{VISION}/tokens", None, "viewer"),
        ("get", f"{VISION}/audit", None, "admin"),
        ("patch", VISION, {"name": "Vision"}, "admin"),
        ("post", f"{VISION}/members", {"username": "nobody"}, "admin"),
        ("post", f"{VISION}/transfer", {"username": "nobody"}, "owner"),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_each_thing_needs_its_role(workspace, signed_in, method, address, body, needed, role):
    answer = getattr(signed_in(make_member(workspace, role)), method)(address, body)
    if role.at_least(Role(needed)):
        assert answer.status_code in (200, 400)
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "role_too_low")
        assert needed in answer.json()["detail"]
        assert f"yours is {role}" in answer.json()["detail"]


def test_a_read_token_changes_nothing_even_for_an_owner(workspace, with_token):
    client = with_token(make_member(workspace, "owner"), workspace, ApiToken.Scope.READ)
    assert client.get(VISION).status_code == 200
    answer = client.patch(VISION, {"name": "Mine"})
    assert (answer.status_code, answer.json()["code"]) == (403, "token_read_only")
    assert Workspace.objects.get().name == ""


def test_an_operators_read_token_changes_nothing(db, with_token):
    client = with_token(make_operator(), None, ApiToken.Scope.READ)
    assert client.get("/api/v1/admin/plans").status_code == 200
    answer = client.post("/api/v1/admin/plans", {"name": "gpu"})
    assert (answer.status_code, answer.json()["code"]) == (403, "token_read_only")


def test_an_operator_is_owner_everywhere(workspace, operator):
    assert operator.get(VISION).json()["role"] == "owner"
    assert operator.patch(VISION, {"name": "Vision"}).status_code == 200


def test_an_operators_token_of_a_workspace_makes_no_operator(workspace, with_token):
    root = make_operator()
    Membership.objects.create(workspace=workspace, user=root, role="viewer")
    make_workspace("speech")
    client = with_token(root, workspace)

    assert client.get("/api/v1/admin/plans").json()["code"] == "operators_only"
    assert client.get("/api/v1/workspaces/speech").status_code == 404
    assert client.get(VISION).json()["role"] == "viewer"


@pytest.mark.parametrize("things", ["plans", "workspaces", "users", "audit", "nodes"])
def test_operators_things_are_for_operators_only(workspace, signed_in, things):
    owner = signed_in(make_member(workspace, "owner"))
    assert owner.get(f"/api/v1/admin/{things}").json()["code"] == "operators_only"
    assert APIClient().get(f"/api/v1/admin/{things}").status_code == 401


def test_a_session_without_a_csrf_token_changes_nothing(workspace):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(make_member(workspace, "owner"))
    assert client.patch(VISION, {"name": "Mine"}).status_code == 403
    assert Workspace.objects.get().name == ""


def test_the_workspaces_of_a_person_are_those_they_are_in(workspace, signed_in):
    make_workspace("speech")
    rows = signed_in(make_member(workspace, "admin")).get("/api/v1/workspaces").json()["results"]
    assert [(row["slug"], row["role"]) for row in rows] == [("vision", "admin")]


def test_an_operator_lists_every_workspace_as_its_owner(workspace, operator):
    make_workspace("speech")
    rows = operator.get("/api/v1/workspaces").json()["results"]
    assert [(row["slug"], row["role"]) for row in rows] == [("speech", "owner"), ("vision", "owner")]


def test_unknown_fields_of_a_workspace_are_refused(workspace, signed_in):
    answer = signed_in(make_member(workspace, "owner")).patch(VISION, {"gpu_limit": -1})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, "gpu_limit")

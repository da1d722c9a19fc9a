"""Operators' workspaces: create with an owner, override, suspend, delete."""

from __future__ import annotations

import pytest

from tests.factories import make_app, make_member, make_plan, make_user
from workspaces.models import ApiToken, AuditEvent, Membership, Workspace

WORKSPACES = "/api/v1/admin/workspaces"
OVERRIDES = ["gpu_allowed", "gpu_limit", "cpu_limit", "memory_limit", "app_limit", "security_profile"]


def test_a_workspace_is_created_with_its_owner(operator):
    make_plan("gpu")
    ada = make_user("ada")
    answer = operator.post(WORKSPACES, {"slug": "vision", "plan": "gpu", "owner": "ada"})
    assert answer.status_code == 201
    assert Membership.objects.get(workspace__slug="vision", user=ada).role == "owner"
    assert AuditEvent.objects.get(verb="workspace.create").after["plan"] == "gpu"


def test_a_new_workspace_inherits_everything_from_its_plan(operator):
    make_plan("gpu", gpu_limit=3, cpu_limit=4000, security_profile="default")
    made = operator.post(WORKSPACES, {"slug": "vision", "plan": "gpu"}).json()
    assert {made[name] for name in OVERRIDES} == {None}
    assert made["effective"]["gpu_limit"] == 3
    assert made["effective"]["cpu_limit"] == 4000
    assert made["effective"]["security_profile"] == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu_allowed", False),
        ("gpu_limit", 0),
        ("gpu_limit", -1),
        ("cpu_limit", 500),
        ("memory_limit", 0),
        ("app_limit", -1),
        ("security_profile", "restricted"),
        ("max_lease_hours", 1),
    ],
)
def test_an_override_holds_until_null_gives_the_plan_back(workspace, operator, name, value):
    address = f"{WORKSPACES}/vision"
    inherited = operator.get(address).json()["effective"][name]

    changed = operator.patch(address, {name: value}).json()
    assert (changed[name], changed["effective"][name]) == (value, value)

    back = operator.patch(address, {name: None}).json()
    assert (back[name], back["effective"][name]) == (None, inherited)


def test_a_change_of_plan_is_in_force_at_once(workspace, operator):
    make_plan("small", gpu_allowed=False)
    changed = operator.patch(f"{WORKSPACES}/vision", {"plan": "small"}).json()
    assert changed["effective"]["gpu_allowed"] is False


def test_the_audit_trail_tells_what_an_override_was_before(workspace, operator):
    operator.patch(f"{WORKSPACES}/vision", {"gpu_limit": 2, "suspended": False})
    event = AuditEvent.objects.get(verb="workspace.change")
    assert (event.before, event.after) == ({"gpu_limit": None}, {"gpu_limit": 2})


def test_a_patch_that_changes_nothing_leaves_no_trace(workspace, operator):
    assert operator.patch(f"{WORKSPACES}/vision", {"suspended": False}).status_code == 200
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("slug", ["Vision", "-vision", "vision_1", "", "a" * 41, "vi sion", "ärger"])
def test_a_slug_is_a_dns_label(operator, slug):
    make_plan("gpu")
    answer = operator.post(WORKSPACES, {"slug": slug, "plan": "gpu"})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, "slug")
    assert not Workspace.objects.exists()


def test_a_slug_is_taken_once(workspace, operator):
    make_plan("gpu")
    answer = operator.post(WORKSPACES, {"slug": "vision", "plan": "gpu"})
    assert answer.status_code in (400, 409)
    assert answer.json()["errors"][0]["attr"] == "slug"


@pytest.mark.parametrize("field", ["plan", "owner"])
def test_an_unknown_plan_or_owner_is_named(operator, field):
    make_plan("gpu")
    answer = operator.post(WORKSPACES, {"slug": "vision", "plan": "gpu"} | {field: "nothing"})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, field)


def test_a_workspace_with_apps_is_not_deleted(workspace, operator):
    make_app(workspace)
    answer = operator.delete(f"{WORKSPACES}/vision")
    assert (answer.status_code, answer.json()["code"]) == (409, "workspace_in_use")
    assert Workspace.objects.exists()


def test_an_empty_workspace_goes_with_its_members_and_tokens_and_its_trace_stays(workspace, operator, with_token):
    client = with_token(make_member(workspace, "owner"), workspace)

    assert operator.delete(f"{WORKSPACES}/vision").status_code == 204

    assert not Membership.objects.exists()
    assert not ApiToken.objects.exists()
    assert client.get("/api/v1/me").status_code == 401
    assert AuditEvent.objects.get(verb="workspace.delete").target_name == "vision"


def test_workspaces_are_filtered_and_searched(workspace, operator):
    Workspace.objects.create(slug="speech", plan=make_plan("small"), suspended=True)

    def slugs(query: str) -> list[str]:
        return [row["slug"] for row in operator.get(f"{WORKSPACES}?{query}").json()["results"]]

    assert slugs("") == ["speech", "vision"]
    assert slugs("suspended=true") == ["speech"]
    assert slugs("plan__name=small") == ["speech"]
    assert slugs("search=vis") == ["vision"]
    assert slugs("ordering=-slug") == ["vision", "speech"]

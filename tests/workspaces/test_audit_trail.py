"""The audit trail: who sees which part of it."""

from __future__ import annotations

from tests.factories import make_member, make_plan, make_workspace
from workspaces.audit import PLATFORM, record


def test_a_workspaces_admins_see_its_own_events_newest_first(workspace, signed_in):
    record(PLATFORM, "first", workspace, workspace=workspace)
    record(PLATFORM, "second", workspace, workspace=workspace)
    record(PLATFORM, "elsewhere", workspace, workspace=make_workspace())
    record(PLATFORM, "platform-wide", make_plan())

    rows = signed_in(make_member(workspace, "admin")).get("/api/v1/workspaces/vision/audit").json()["results"]

    assert [row["verb"] for row in rows] == ["second", "first"]


def test_operators_see_everything_and_narrow_it(workspace, operator):
    record(PLATFORM, "plan.create", make_plan("gpu"))
    record(PLATFORM, "member.add", workspace, workspace=workspace)

    def verbs(query: str) -> list[str]:
        return [row["verb"] for row in operator.get(f"/api/v1/admin/audit?{query}").json()["results"]]

    assert verbs("") == ["member.add", "plan.create"]
    assert verbs("workspace__slug=vision") == ["member.add"]
    assert verbs("target_type=plan") == ["plan.create"]
    assert verbs("search=gpu") == ["plan.create"]


def test_an_event_names_the_token_that_acted(workspace, with_token, operator):
    client = with_token(make_member(workspace, "owner", "ada"), workspace, name="ci")
    client.patch("/api/v1/workspaces/vision", {"name": "Vision"})
    event = operator.get("/api/v1/admin/audit?verb=workspace.change").json()["results"][0]
    assert event["actor_name"] == "ada (token ci)"


def test_the_trail_is_not_written_over_the_api(workspace, operator):
    assert operator.post("/api/v1/admin/audit", {}).status_code == 405
    assert operator.post("/api/v1/workspaces/vision/audit", {}).status_code == 405

"""Members: who may change whom, and that an owner always remains."""

from __future__ import annotations

import pytest

from refusals import Refusal
from tests.factories import make_member, make_user, make_workspace
from tests.parallel import in_parallel
from workspaces import members
from workspaces.audit import Actor
from workspaces.models import ApiToken, AuditEvent, Membership, User, Workspace
from workspaces.roles import Role

MEMBERS = "/api/v1/workspaces/vision/members"


def role_of(user: User, workspace: Workspace) -> str | None:
    return Membership.objects.filter(user=user, workspace=workspace).values_list("role", flat=True).first()


def test_an_admin_adds_a_person_who_has_an_account(workspace, signed_in):
    make_user("ada")

    answer = signed_in(make_member(workspace, "admin", "boss")).post(MEMBERS, {"username": "ada", "role": "developer"})

    assert (answer.status_code, answer.json()["role"]) == (201, "developer")
    event = AuditEvent.objects.get(verb="member.add")
    assert (event.actor_name, event.workspace, event.after) == ("boss", workspace, {"user": "ada", "role": "developer"})


def test_a_person_is_a_viewer_when_no_role_is_given(workspace, signed_in):
    ada = make_user("ada")
    signed_in(make_member(workspace, "admin")).post(MEMBERS, {"username": "ada"})
    assert role_of(ada, workspace) == "viewer"


def test_a_member_is_not_added_twice(workspace, signed_in):
    make_member(workspace, "viewer", "ada")
    answer = signed_in(make_member(workspace, "admin")).post(MEMBERS, {"username": "ada"})
    assert (answer.status_code, answer.json()["code"]) == (409, "already_member")


@pytest.mark.parametrize("role", ["viewer", "developer"])
def test_who_is_no_admin_adds_nobody(workspace, signed_in, role):
    make_user("ada")
    answer = signed_in(make_member(workspace, role)).post(MEMBERS, {"username": "ada"})
    assert (answer.status_code, answer.json()["code"]) == (403, "role_too_low")
    assert "admin" in answer.json()["detail"]
    assert role in answer.json()["detail"]


def test_nobody_grants_above_their_own_rank(workspace, signed_in):
    make_user("ada")
    admin = signed_in(make_member(workspace, "admin"))
    answer = admin.post(MEMBERS, {"username": "ada", "role": "owner"})
    assert (answer.status_code, answer.json()["code"]) == (403, "above_own_rank")


@pytest.mark.parametrize("change", ["demote", "remove"])
def test_nobody_touches_who_ranks_above_them(workspace, signed_in, change):
    owner = make_member(workspace, "owner", "ada")
    make_member(workspace, "owner")
    admin = signed_in(make_member(workspace, "admin"))
    address = f"{MEMBERS}/ada"
    answer = admin.patch(address, {"role": "viewer"}) if change == "demote" else admin.delete(address)
    assert (answer.status_code, answer.json()["code"]) == (403, "above_own_rank")
    assert role_of(owner, workspace) == "owner"


@pytest.mark.parametrize("change", ["demote", "remove"])
def test_the_last_owner_stays(workspace, signed_in, change):
    owner = make_member(workspace, "owner", "ada")
    client = signed_in(owner)
    address = f"{MEMBERS}/ada"
    answer = client.patch(address, {"role": "admin"}) if change == "demote" else client.delete(address)
    assert (answer.status_code, answer.json()["code"]) == (409, "last_owner")
    assert role_of(owner, workspace) == "owner"


def test_an_owner_may_step_down_when_another_is_left(workspace, signed_in):
    ada = make_member(workspace, "owner", "ada")
    make_member(workspace, "owner")
    assert signed_in(ada).patch(f"{MEMBERS}/ada", {"role": "viewer"}).status_code == 200
    assert role_of(ada, workspace) == "viewer"


def test_a_removed_members_tokens_stay_dead_when_they_come_back(workspace, signed_in, with_token):
    ada = make_member(workspace, "developer", "ada")
    token = with_token(ada, workspace)
    admin = signed_in(make_member(workspace, "admin"))

    assert admin.delete(f"{MEMBERS}/ada").status_code == 204
    admin.post(MEMBERS, {"username": "ada", "role": "developer"})

    assert token.get(MEMBERS).status_code == 401


def test_removing_a_member_leaves_their_tokens_of_other_workspaces(workspace, signed_in, with_token):
    ada = make_member(workspace, "developer", "ada")
    elsewhere = make_workspace("speech")
    Membership.objects.create(workspace=elsewhere, user=ada, role="viewer")
    token = with_token(ada, elsewhere)

    signed_in(make_member(workspace, "admin")).delete(f"{MEMBERS}/ada")

    assert token.get("/api/v1/workspaces/speech").status_code == 200
    assert ApiToken.objects.get(user=ada).usable


def test_the_owner_hands_the_workspace_over(workspace, signed_in):
    owner, heir = make_member(workspace, "owner", "ada"), make_member(workspace, "developer", "bob")

    answer = signed_in(owner).post("/api/v1/workspaces/vision/transfer", {"username": "bob"})

    assert answer.status_code == 204
    assert (role_of(owner, workspace), role_of(heir, workspace)) == ("admin", "owner")


def test_a_workspace_is_handed_over_to_members_only(workspace, signed_in):
    make_user("bob")
    owner = make_member(workspace, "owner")
    answer = signed_in(owner).post("/api/v1/workspaces/vision/transfer", {"username": "bob"})
    assert answer.status_code in (400, 409)
    assert role_of(owner, workspace) == "owner"


def test_handing_a_workspace_over_to_oneself_changes_nothing(workspace, signed_in):
    owner = make_member(workspace, "owner", "ada")
    assert signed_in(owner).post("/api/v1/workspaces/vision/transfer", {"username": "ada"}).status_code == 204
    assert role_of(owner, workspace) == "owner"


def test_an_admin_does_not_hand_the_workspace_over(workspace, signed_in):
    make_member(workspace, "owner", "ada")
    answer = signed_in(make_member(workspace, "admin", "bob")).post(
        "/api/v1/workspaces/vision/transfer", {"username": "bob"}
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "role_too_low")


def test_a_role_lost_while_waiting_no_longer_counts(workspace):
    """The role the request came with is stale by the time the lock is had."""
    boss, ada = make_member(workspace, "admin", "boss"), make_member(workspace, "viewer", "ada")
    Membership.objects.filter(user=boss).update(role="developer")

    with pytest.raises(members.AboveOwnRank):
        members.remove_member(Membership.objects.get(user=ada), actor=Actor.person(boss), actor_role=Role.ADMIN)

    assert role_of(ada, workspace) == "viewer"


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.parametrize("times", range(3))
def test_owners_who_remove_each_other_at_once_leave_one(times):
    workspace = make_workspace("vision")
    owners = [make_member(workspace, "owner") for _ in range(4)]

    def remove(pair: tuple[User, User]) -> str:
        actor, other = pair
        try:
            members.remove_member(
                Membership.objects.get(user=other, workspace=workspace),
                actor=Actor.person(actor),
                actor_role=Role.OWNER,
            )
        except Membership.DoesNotExist:
            return "gone"
        except Refusal as refusal:
            return refusal.code
        return "removed"

    outcomes = in_parallel(remove, [(a, b) for a in owners for b in owners if a is not b])

    left = Membership.objects.filter(workspace=workspace, role="owner").count()
    assert left >= 1
    assert outcomes.count("removed") == len(owners) - left
    assert set(outcomes) <= {"removed", "gone", "not_a_member", "above_own_rank", "last_owner"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_two_owners_who_demote_themselves_at_once_leave_one():
    workspace = make_workspace("vision")
    owners = [make_member(workspace, "owner") for _ in range(2)]

    def step_down(owner: User) -> str:
        try:
            members.change_role(
                Membership.objects.get(user=owner), Role.VIEWER, actor=Actor.person(owner), actor_role=Role.OWNER
            )
        except Refusal as refusal:
            return refusal.code
        return "stepped down"

    assert sorted(in_parallel(step_down, owners)) == ["last_owner", "stepped down"]
    assert Membership.objects.filter(workspace=workspace, role="owner").count() == 1

"""API tokens: shown once, kept as a digest, bound to a workspace, never more than their user."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tests.factories import make_member, make_operator, make_user, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, AuditEvent, Membership
from workspaces.tokens import NotAMember, create_token, digest_of

TOKENS = "/api/v1/workspaces/vision/tokens"


def test_a_tokens_text_is_in_the_answer_that_made_it_and_nowhere_else(workspace, signed_in):
    client = signed_in(make_member(workspace, "developer", "ada"))

    made = client.post(TOKENS, {"name": "ci", "scope": "write"})

    assert made.status_code == 201
    text = made.json()["token"]
    assert text.startswith("mia_")
    listed = client.get(TOKENS).json()["results"]
    assert [row["name"] for row in listed] == ["ci"]
    assert "token" not in listed[0]
    row = ApiToken.objects.get()
    assert (row.digest, row.prefix) == (digest_of(text), text[:12])
    assert text not in str(AuditEvent.objects.values())


def test_a_token_acts_for_its_user_and_notes_when(workspace, signed_in):
    ada = make_member(workspace, "viewer", "ada")
    text = signed_in(ada).post(TOKENS, {"name": "ci"}).json()["token"]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"bearer {text}")

    me = client.get("/api/v1/me").json()

    assert (me["username"], me["token"], me["scope"], me["operator"]) == ("ada", "ci", "read", False)
    assert ApiToken.objects.filter(last_used_at__gt=timezone.now() - timedelta(minutes=1)).exists()


@pytest.mark.parametrize("text", ["mia_unknown", "", "mia_\u00e9", "a b c"])
def test_an_unknown_token_is_refused_and_told_how_to_sign_in(db, text):
    answer = APIClient().get("/api/v1/me", HTTP_AUTHORIZATION=f"Bearer {text}".encode().decode("latin-1"))
    assert (answer.status_code, answer.json()["code"]) == (401, "bad_token")
    assert answer["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "end",
    [
        lambda token: ApiToken.objects.update(expires_at=timezone.now()),
        lambda token: ApiToken.objects.update(revoked_at=timezone.now()),
        lambda token: type(token.user).objects.update(is_active=False),
    ],
    ids=["expired", "revoked", "its user is deactivated"],
)
def test_a_token_stops_working_at_once_when(workspace, with_token, end):
    client = with_token(make_member(workspace, "viewer"), workspace)
    assert client.get("/api/v1/me").status_code == 200

    end(ApiToken.objects.select_related("user").get())

    assert client.get("/api/v1/me").status_code == 401


def test_a_token_that_would_be_expired_already_is_not_made(workspace, signed_in):
    client = signed_in(make_member(workspace, "viewer"))
    answer = client.post(TOKENS, {"name": "ci", "expires_at": "2020-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, "expires_at")


def test_a_viewer_makes_tokens_that_read_and_none_that_write(workspace, signed_in):
    client = signed_in(make_member(workspace, "viewer"))
    assert client.post(TOKENS, {"name": "reads", "scope": "read"}).status_code == 201
    answer = client.post(TOKENS, {"name": "writes", "scope": "write"})
    assert (answer.status_code, answer.json()["code"]) == (403, "role_too_low")


def test_usable_tokens_of_a_workspace_have_different_names(workspace, signed_in):
    client = signed_in(make_member(workspace, "developer"))
    first = client.post(TOKENS, {"name": "ci"}).json()
    again = client.post(TOKENS, {"name": "ci"})
    assert (again.status_code, again.json()["code"]) == (409, "token_name_taken")

    assert client.delete(f"{TOKENS}/{first['id']}").status_code == 204
    assert client.post(TOKENS, {"name": "ci"}).status_code == 201


def test_people_see_and_revoke_their_own_tokens_and_admins_everybodys(workspace, signed_in, with_token):
    ada = make_member(workspace, "developer", "ada")
    with_token(ada, workspace, name="adas")
    token = ApiToken.objects.get()
    other = signed_in(make_member(workspace, "developer"))
    assert other.get(TOKENS).json()["results"] == []
    assert other.delete(f"{TOKENS}/{token.pk}").status_code == 404

    admin = signed_in(make_member(workspace, "admin"))
    assert [row["username"] for row in admin.get(TOKENS).json()["results"]] == ["ada"]
    assert admin.delete(f"{TOKENS}/{token.pk}").status_code == 204
    assert not ApiToken.objects.get().usable


def test_revoking_twice_leaves_one_trace(workspace, signed_in, with_token):
    admin = signed_in(make_member(workspace, "admin"))
    with_token(make_member(workspace, "viewer"), workspace)
    address = f"{TOKENS}/{ApiToken.objects.get().pk}"
    assert [admin.delete(address).status_code for _ in range(2)] == [204, 204]
    assert AuditEvent.objects.filter(verb="token.revoke").count() == 1


def test_a_token_sees_its_own_workspace_only(workspace, with_token):
    ada = make_member(workspace, "owner", "ada")
    elsewhere = make_workspace("speech")
    Membership.objects.create(workspace=elsewhere, user=ada, role="owner")
    client = with_token(ada, workspace)

    assert client.get("/api/v1/workspaces/speech").status_code == 404
    assert [row["slug"] for row in client.get("/api/v1/workspaces").json()["results"]] == ["vision"]
    assert [row["slug"] for row in client.get("/api/v1/me").json()["workspaces"]] == ["vision"]


def test_a_token_has_its_users_role_of_the_moment(workspace, with_token):
    ada = make_member(workspace, "admin", "ada")
    client = with_token(ada, workspace)
    assert client.get("/api/v1/workspaces/vision/audit").status_code == 200

    Membership.objects.update(role="viewer")

    assert client.get("/api/v1/workspaces/vision/audit").status_code == 403


def test_a_token_for_somebody_who_is_no_member_is_refused(workspace):
    with pytest.raises(NotAMember, match="not a member of vision"):
        create_token(make_user(), name="ci", workspace=workspace, actor=PLATFORM)


def test_an_operators_token_ends_with_their_being_one(db, with_token):
    root = make_operator("root")
    client = with_token(root, None)
    assert client.get("/api/v1/admin/plans").status_code == 200

    type(root).objects.update(is_staff=False)

    assert client.get("/api/v1/admin/plans").status_code == 401

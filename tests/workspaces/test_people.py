"""Operators' side of people: accounts are made, changed and deactivated, never deleted."""

from __future__ import annotations

import pytest

from tests.factories import make_member, make_user
from workspaces.models import AuditEvent, User

USERS = "/api/v1/admin/users"
PASSWORD = "correct horse battery staple"


def test_an_operator_makes_an_account_that_can_sign_in(operator, client):
    answer = operator.post(USERS, {"username": "ada", "password": PASSWORD})
    assert answer.status_code == 201
    assert "password" not in answer.json()
    assert client.login(username="ada", password=PASSWORD)
    assert PASSWORD not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize("password", ["", "12345678", "password", "short"])
def test_a_weak_password_is_refused(operator, password):
    answer = operator.post(USERS, {"username": "ada", "password": password})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, "password")
    assert not User.objects.filter(username="ada").exists()


def test_two_accounts_have_not_the_same_name(operator):
    make_user("ada")
    answer = operator.post(USERS, {"username": "ada", "password": PASSWORD})
    assert answer.status_code in (400, 409)
    assert answer.json()["errors"][0]["attr"] == "username"


def test_a_deactivated_account_is_out_at_once(workspace, operator, signed_in):
    ada = make_member(workspace, "owner", "ada")
    client = signed_in(ada)
    assert client.get("/api/v1/me").status_code == 200

    assert operator.patch(f"{USERS}/{ada.pk}", {"is_active": False}).status_code == 200

    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_an_operator_does_not_lock_themselves_out(operator, change):
    root = User.objects.get(username="root")
    answer = operator.patch(f"{USERS}/{root.pk}", change)
    assert (answer.status_code, answer.json()["code"]) == (409, "own_account")
    root.refresh_from_db()
    assert root.is_active
    assert root.is_staff


def test_a_changed_password_is_never_told(operator, client):
    ada = make_user("ada", password="before")
    assert operator.patch(f"{USERS}/{ada.pk}", {"password": PASSWORD}).status_code == 200
    assert client.login(username="ada", password=PASSWORD)
    assert AuditEvent.objects.get(verb="user.change").after == {"password": "(set)"}


def test_people_are_not_deleted(operator):
    assert operator.delete(f"{USERS}/{make_user('ada').pk}").status_code == 405


def test_nobody_makes_themselves_a_superuser(operator):
    answer = operator.post(USERS, {"username": "ada", "password": PASSWORD, "is_superuser": True})
    assert (answer.status_code, answer.json()["errors"][0]["attr"]) == (400, "is_superuser")

"""``manage.py create_token``."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from tests.factories import make_member, make_operator, make_user
from workspaces.models import ApiToken


def create_token(*arguments: str) -> str:
    out = StringIO()
    call_command("create_token", *arguments, stdout=out)
    return out.getvalue().strip()


def test_it_prints_a_token_that_works_and_nothing_else(workspace):
    make_member(workspace, "developer", "ada")
    text = create_token("--user", "ada", "--workspace", "vision", "--name", "ci", "--scope", "write", "--days", "30")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/workspaces/vision").status_code == 200
    token = ApiToken.objects.get()
    assert token.scope == "write"
    assert token.expires_at is not None
    assert abs(token.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)


def test_a_token_reads_only_and_never_expires_unless_told_otherwise(workspace):
    make_member(workspace, "developer", "ada")
    create_token("--user", "ada", "--workspace", "vision", "--name", "ci")
    token = ApiToken.objects.get()
    assert (token.scope, token.expires_at) == ("read", None)


def test_an_operators_token_reaches_the_operators_api(db):
    make_operator("root")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token('--user', 'root', '--operator', '--name', 'cli')}")
    assert client.get("/api/v1/admin/plans").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--user", "nobody", "--workspace", "vision", "--name", "ci"], "no active user called nobody"),
        (["--user", "ada", "--workspace", "speech", "--name", "ci"], "no workspace called speech"),
        (["--user", "ada", "--operator", "--name", "ci"], "not an operator"),
        (["--user", "ada", "--name", "ci"], "required"),
        (["--user", "ada", "--workspace", "vision", "--operator", "--name", "ci"], "not allowed with"),
        (["--user", "bob", "--workspace", "vision", "--name", "ci"], "not a member"),
        (["--user", "ada", "--workspace", "vision", "--name", " "], "1 to 60 characters"),
        (["--user", "ada", "--workspace", "vision", "--name", "a" * 61], "1 to 60 characters"),
        (["--user", "ada", "--workspace", "vision", "--name", "ci", "--days", "0"], "not 0"),
        (["--user", "ada", "--workspace", "vision", "--name", "ci", "--days", "99999999"], "not 99999999"),
        (["--user", "ada", "--workspace", "vision", "--name", "ci", "--scope", "all"], "invalid choice"),
    ],
)
def test_it_says_what_is_wrong_and_makes_nothing(workspace, arguments, sentence):
    make_member(workspace, "developer", "ada")
    make_user("bob")
    with pytest.raises(CommandError, match=sentence):
        create_token(*arguments)
    assert not ApiToken.objects.exists()

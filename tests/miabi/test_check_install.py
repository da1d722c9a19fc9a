"""``manage.py check_install``: what is configured, reachable and missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving, serve
from gpus.models import Node
from miabi import installation_check
from tests.factories import make_node, make_operator


@pytest.fixture(autouse=True)
def _sound_installation(db, settings) -> None:
    settings.MIABI_GPU_ENABLED = True
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = 2.0
    make_operator("root")


@pytest.fixture
def host() -> VirtualNode:
    return VirtualNode.with_cards("host-1", 2, pull_seconds=0.0)


@pytest.fixture
def serving(host, tmp_path) -> Iterator[Serving]:
    with serve([host], tmp_path) as running:
        yield running


@pytest.fixture
def node(serving) -> Node:
    return make_node("gpu-1", address=serving.urls[0])


def check() -> tuple[bool, dict[str, list[str]]]:
    """Whether it ended well, and the sentences of what is not ok, by part."""
    out = StringIO()
    try:
        call_command("check_install", "--json", stdout=out)
        ended_well = True
    except CommandError:
        ended_well = False
    told = json.loads(out.getvalue())
    assert told["ok"] is ended_well
    problems: dict[str, list[str]] = {}
    for finding in told["findings"]:
        if finding["status"] == "problem":
            problems.setdefault(finding["part"], []).append(finding["sentence"])
    return ended_well, problems


def test_a_sound_installation_ends_well(node):
    assert check() == (True, {})


def test_people_read_what_is_well_too(node):
    out = StringIO()
    call_command("check_install", stdout=out)
    text = out.getvalue()
    assert "node gpu-1" in text
    assert "answers" in text
    assert connection.display_name in text


def test_an_engine_that_does_not_answer_is_named_and_the_others_are_still_asked(node):
    make_node("gpu-0", address="unix:///nowhere/engine.sock")
    ended_well, problems = check()
    assert not ended_well
    assert set(problems) == {"node gpu-0"}
    assert "unix:///nowhere/engine.sock" in problems["node gpu-0"][0]


def test_a_node_without_the_toolkit_is_a_problem_where_gpus_are_on(node, host, serving, settings):
    serving.call(lambda: setattr(host, "toolkit", False))
    assert list(check()[1]) == ["node gpu-1"]

    settings.MIABI_GPU_ENABLED = False
    assert check() == (True, {})


def test_debug_and_any_host_name_are_problems(node, settings):
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = ["*"]
    settings.SECRET_KEY = "short"
    assert len(check()[1]["settings"]) == 3


def test_secrets_that_the_keys_do_not_open_are_named_by_kind_and_node(node, settings):
    Node.objects.filter(pk=node.pk).update(credentials={"ca_cert": "x"})
    settings.MIABI_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    ended_well, problems = check()

    assert not ended_well
    assert problems["keys"] == ["Credentials of nodes cannot be read with the keys that are configured."]
    assert "node gpu-1" in problems


def test_something_that_is_no_key_is_a_problem(node, settings):
    settings.MIABI_ENCRYPTION_KEYS = ["nonsense"]
    assert "no key" in check()[1]["keys"][0]


def test_migrations_that_are_not_applied_are_a_problem(node):
    MigrationRecorder.Migration.objects.filter(app="gpus").delete()
    ended_well, problems = check()
    assert not ended_well
    assert "not applied" in problems["database"][0]


@pytest.mark.parametrize("part", ["database", "broker"])
def test_what_does_not_answer_is_named(node, monkeypatch, part):
    monkeypatch.setattr(installation_check, f"{part}_problem", lambda: "does not answer")
    assert "does not answer" in check()[1][part][0]


def test_an_installation_without_operators_is_a_problem(node):
    type(make_operator()).objects.update(is_active=False)
    assert "Nobody can sign in" in check()[1]["people"][0]


@pytest.mark.sqlite
def test_pragmas_that_are_off_are_a_problem(node):
    # In a transaction the pragma would have no effect, and tests run in one: the wait is set instead.
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            problems = check()[1]
        finally:
            cursor.execute("PRAGMA busy_timeout = 30000")
    assert any("busy_timeout" in sentence for sentence in problems["database"])


def test_nothing_is_changed_and_no_container_is_run(node, host):
    before = Node.objects.values().get(pk=node.pk)
    check()
    assert Node.objects.values().get(pk=node.pk) == before
    assert not host.containers

"""Health: whether the process serves, and whether what it needs does."""

from __future__ import annotations

import socket
import time

import pytest
from celery import current_app
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from miabi import health


@pytest.fixture
def redis_broker(monkeypatch):
    """Makes a Redis at ``url`` the broker, with the product's settings for one."""

    def use(url: str) -> None:
        as_in_production = {"socket_timeout": 5, "socket_connect_timeout": 2}
        for name, value in {
            "broker_url": url,
            "broker_write_url": url,
            "broker_transport_options": as_in_production,
        }.items():
            monkeypatch.setitem(current_app.conf, name, value)

    return use


def test_healthz_says_ok_without_asking_the_database():
    # No database is allowed in this test: a query would be an error.
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_readyz_says_ok_when_database_migrations_and_broker_are(db):
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["parts"]) == (
        200,
        {"database": "ok", "migrations": "ok", "broker": "ok"},
    )


def test_readyz_names_a_database_that_does_not_answer(db, monkeypatch):
    def broken():
        raise OperationalError("connection refused at 10.0.0.9 for user miabi")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "cursor", broken)
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["database"] == "does not answer"
    assert "10.0.0.9" not in answer.content.decode()


def test_readyz_names_migrations_that_are_not_applied(db):
    MigrationRecorder.Migration.objects.filter(app="gpus").delete()
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert "not applied" in answer.json()["parts"]["migrations"]


def test_readyz_sees_a_redis_that_answers(db, redis_server, redis_broker):
    redis_broker(redis_server.url)
    assert health.broker_problem() == ""


def test_readyz_names_a_broker_that_refuses(db, redis_broker):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        redis_broker(f"redis://127.0.0.1:{unused.getsockname()[1]}/0")
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["broker"].startswith("does not answer")
    assert answer.json()["parts"]["database"] == "ok"


def test_a_broker_that_hangs_holds_readyz_up_for_seconds_only(db, redis_broker):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        redis_broker(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        began = time.monotonic()
        problem = health.broker_problem()
        waited = time.monotonic() - began
    assert problem
    # A bound far from the measured few seconds, against waiting for ever.
    assert waited < 30


@pytest.mark.parametrize("address", ["/healthz", "/readyz"])
def test_health_needs_no_credentials_and_only_reads(db, address):
    assert Client().get(address).status_code == 200
    assert Client().post(address).status_code == 405

"""The check of what a container sees, while the container or the decision changes."""

from __future__ import annotations

import time

import pytest

from apps_runtime import lifecycle, steps
from apps_runtime.models import App, DeviceLease
from engines.contract import ExecResult
from engines.docker import DockerEngine
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]

FOREIGN_CARD = b"GPU 0: NVIDIA L4 (UUID: GPU-ffffffff-0000-0000-0000-000000000000)\n"


def deploy(**fields) -> App:
    app = make_app(make_workspace(), gpu=1, **fields)
    lifecycle.request_deploy(app, actor=PLATFORM)
    return app


def test_a_stop_during_a_breach_ends_the_container_and_the_breach_is_kept(host, monkeypatch):
    app = deploy()
    asked = []

    def shows_a_foreign_card(engine, container, command, **kwargs) -> ExecResult:
        asked.append(container)
        assert len(asked) < 5, "the check goes on for ever"
        lifecycle.request_stop(app, actor=PLATFORM)
        return ExecResult(0, FOREIGN_CARD)

    monkeypatch.setattr(DockerEngine, "execute", shows_a_foreign_card)
    steps.advance(app.pk)

    deployment = app.deployments.get()
    assert (deployment.state, deployment.verification) == ("stopped", "breach")
    assert app.events.filter(code="gpu_isolation_breach").count() == 1
    assert not host.containers
    assert not DeviceLease.objects.exists()


@pytest.mark.both_databases
def test_a_null_character_in_the_answer_from_inside_keeps_no_container_alive(host, monkeypatch):
    app = deploy()
    monkeypatch.setattr(DockerEngine, "execute", lambda *args, **kwargs: ExecResult(0, b"\x00" + FOREIGN_CARD))

    steps.advance(app.pk)

    deployment = app.deployments.get()
    assert (deployment.state, deployment.reason_code) == ("failed", "gpu_isolation_breach")
    assert "GPU-ffffffff" in deployment.operator_detail
    assert not host.containers


def test_a_job_that_ends_during_the_check_is_unverified_and_no_breach(host, monkeypatch):
    app = deploy(command=["sh", "-c", "sleep 0.3"])

    def killed_with_the_container(engine, container, command, **kwargs) -> ExecResult:
        while engine.inspect(container).phase == "running":
            time.sleep(0.02)
        return ExecResult(137, b"")

    monkeypatch.setattr(DockerEngine, "execute", killed_with_the_container)
    steps.advance(app.pk)

    deployment = app.deployments.get()
    assert (deployment.state, deployment.reason_code) == ("stopped", "completed")
    assert deployment.verification == "unverified"

"""How a drain ends: the pass that brings rows and containers together says so."""

from __future__ import annotations

import pytest

from apps_runtime.models import Deployment
from apps_runtime.reconcile import reconcile_node
from gpus.models import Node
from gpus.nodes import start_drain
from tests.factories import make_app, make_workspace
from workspaces.audit import Actor
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def draining(node: Node, operator: Actor) -> Deployment:
    """A deployment that is still live on a node that drains."""
    app = make_app(make_workspace())
    deployment = Deployment.objects.create(
        app=app, workspace=app.workspace, number=1, node=node, spec={}, state="pulling"
    )
    assert start_drain(node, actor=operator).drain_state == "draining"
    return deployment


def state_after_a_pass(node: Node) -> str:
    reconcile_node(node.pk)
    node.refresh_from_db()
    return node.drain_state


def test_a_node_drains_on_while_a_deployment_lives(node: Node, draining: Deployment):
    assert state_after_a_pass(node) == "draining"


def test_a_node_is_drained_once_its_last_deployment_has_ended(node: Node, draining: Deployment):
    Deployment.objects.update(state="stopped", ended_at=draining.created_at)
    assert state_after_a_pass(node) == "drained"
    assert AuditEvent.objects.filter(verb="node.drained", actor_name="platform").count() == 1


def test_an_engine_that_does_not_answer_ends_no_drain(node: Node, draining: Deployment):
    Deployment.objects.update(state="stopped", ended_at=draining.created_at)
    Node.objects.update(address="unix:///nowhere/engine.sock")
    assert state_after_a_pass(node) == "draining"

"""Every list of the API costs the same number of queries, however many rows it has."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps_runtime.models import App, Deployment, DeploymentEvent, DeviceLease, Registry, Secret, Volume
from apps_runtime.specs import spec_of
from gpus.models import Node
from plans.models import Plan
from tests.factories import make_app, make_device, make_member, make_node, make_operator, make_plan, make_workspace
from tests.miabi.addresses import Address, addresses
from workspaces.audit import PLATFORM, record
from workspaces.models import Membership, Workspace
from workspaces.tokens import create_token

FEW, MANY = 2, 20


class Rows:
    """Adds rows of everything that is listed, all of them in or around one workspace, app and node."""

    def __init__(self) -> None:
        self.workspace: Workspace = make_workspace("demo", plan=make_plan("gpu"))
        self.node: Node = make_node("gpu-1")
        self.app: App = make_app(self.workspace, "web")
        self.count = 0

    def add(self, more: int) -> None:
        for number in range(self.count, self.count + more):
            self._add_one(number)
        self.count += more

    def _add_one(self, number: int) -> None:
        member = make_member(self.workspace, "developer", f"member-{number}")
        create_token(member, name=f"token-{number}", workspace=self.workspace, actor=PLATFORM)
        elsewhere = make_workspace(f"team-x{number}", plan=Plan.objects.create(name=f"plan-x{number}"))
        Membership.objects.create(workspace=elsewhere, user=member, role="viewer")
        record(PLATFORM, "test.event", elsewhere, workspace=self.workspace)
        Volume.objects.create(workspace=self.workspace, name=f"volume-{number}")
        Secret.objects.create(workspace=self.workspace, name=f"secret-{number}")
        Registry.objects.create(workspace=self.workspace, name=f"registry-{number}", server=f"r{number}.example.com")
        make_device(make_node(f"node-{number}"))
        holder = make_app(self.workspace, f"app-{number}", node=make_node(f"pinned-{number}"))
        self._deployment(holder, self.node)
        self._deployment(self.app, make_node(f"old-{number}"))

    def _deployment(self, app: App, node: Node) -> None:
        deployment = Deployment.objects.create(
            app=app,
            workspace=self.workspace,
            number=app.deployments.count() + 1,
            spec=spec_of(app),
            node=node,
            state="running",
        )
        first = self.app.deployments.order_by("number").first()
        DeploymentEvent.objects.create(app=app, deployment=deployment, message="Running.")
        DeploymentEvent.objects.create(app=self.app, deployment=first, message="Still running.")
        device = make_device(node, held=1)
        DeviceLease.objects.create(deployment=deployment, device=device, slot=0)


def lists(address: Address) -> bool:
    action = getattr(address.view, "actions", {}).get("get")
    return address.template.startswith("api/v1/") and action in ("list", "events")


LISTS = sorted(filter(lists, addresses()), key=str)


def test_the_walk_finds_the_lists():
    assert len(LISTS) >= 15
    for word in ("nodes", "gpus", "plans", "users", "audit", "members", "tokens", "apps", "deployments", "volumes"):
        assert any(word in address.template for address in LISTS), word


@pytest.fixture
def operator(db) -> APIClient:
    client = APIClient()
    client.force_login(make_operator("root"))
    return client


@pytest.mark.parametrize("address", LISTS, ids=str)
def test_a_list_of_many_costs_as_many_queries_as_a_list_of_few(operator, address):
    rows = Rows()
    known = {"workspace_slug": "demo", "app_name": "web", "name": "web", "node_id": rows.node.pk, "number": 1}

    def measure() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as captured:
            answer = operator.get(address.filled(**known), {"page_size": 100})
        assert answer.status_code == 200, answer.content
        return len(answer.json()["results"]), len(captured)

    rows.add(FEW)
    listed_few, few = measure()
    rows.add(MANY - FEW)
    listed_many, many = measure()

    assert listed_few < listed_many
    assert few == many < 15

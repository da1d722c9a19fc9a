"""Manifests of several apps, applied at the same moment."""

from __future__ import annotations

import time

import pytest

from apps_runtime import leases
from apps_runtime.applying import apply
from apps_runtime.models import Deployment
from tests.factories import make_device, make_node, make_workspace
from tests.parallel import in_parallel
from workspaces.audit import PLATFORM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases, pytest.mark.usefixtures("wakes")]

APPLICATION = """
apiVersion: miabi.io/v1
kind: Application
metadata: {{name: {name}}}
spec: {{image: registry.example.com/acme/app, node: {node}, resources: {{gpu: 1}}}}
---
"""


@pytest.fixture
def slow_take(monkeypatch) -> None:
    """Who has taken a device holds its node's lock for a while."""
    take = leases.take

    def slowly(*args) -> None:
        take(*args)
        time.sleep(0.3)

    monkeypatch.setattr(leases, "take", slowly)


def manifest(*nodes: str) -> str:
    return "".join(APPLICATION.format(name=f"app-on-{node}", node=node) for node in nodes)


@pytest.mark.usefixtures("slow_take")
def test_manifests_that_name_nodes_in_opposite_order_do_not_deadlock():
    for name in ("gpu-1", "gpu-2"):
        node = make_node(name)
        make_device(node)
        make_device(node)

    def apply_one(given: tuple[Workspace, str]) -> int:
        return len(apply(given[0], given[1], actor=PLATFORM, deploy=True))

    texts = [manifest("gpu-1", "gpu-2"), manifest("gpu-2", "gpu-1")]
    assert in_parallel(apply_one, [(make_workspace(), text) for text in texts]) == [2, 2]
    assert Deployment.objects.live().count() == 4

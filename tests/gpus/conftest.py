"""What the tests of nodes and devices start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app

from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving, serve
from gpus.models import Node
from tests.factories import make_node
from workspaces.audit import Actor

SECONDS = 1.0
"""Deadline of a single engine call, so that a hung engine costs a test little."""


@pytest.fixture(autouse=True)
def _platform(settings) -> None:
    settings.MIABI_GPU_ENABLED = True
    settings.MIABI_ENGINE_TIMEOUT_SECONDS = SECONDS
    settings.MIABI_PROBE_WAIT_SECONDS = SECONDS
    settings.MIABI_PULL_TIMEOUT_SECONDS = 5.0


@pytest.fixture
def operator() -> Actor:
    return Actor("operator")


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, tuple[int, ...]]]:
    """Messages to the worker, as (task, arguments); nothing is sent."""
    messages: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr(
        current_app, "send_task", lambda name, args, *others, **options: messages.append((name, tuple(args)))
    )
    return messages


@pytest.fixture
def host() -> VirtualNode:
    """A simulated host with four cards."""
    return VirtualNode.with_cards("host-1", 4, pull_seconds=0.0)


@pytest.fixture
def serving(host: VirtualNode, tmp_path: Path) -> Iterator[Serving]:
    with serve([host], tmp_path) as running:
        yield running


@pytest.fixture
def node(db, serving: Serving) -> Node:
    """The registered node of ``host``, never probed."""
    return make_node("gpu-1", address=serving.urls[0], gpu_capable=False, reachable=None, last_probe_ok=None)

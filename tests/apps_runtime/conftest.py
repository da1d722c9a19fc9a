"""What the tests of apps start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import current_app

from engines.virtual.node import VirtualNode
from engines.virtual.serving import serve
from tests.factories import make_device, make_node


@pytest.fixture(autouse=True)
def gpus_on(settings):
    settings.MIABI_GPU_ENABLED = True


@pytest.fixture
def wakes(monkeypatch) -> list[int]:
    """Apps that a worker was woken for; nothing is sent."""
    sent: list[int] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **kwargs: sent.append(args[0]))
    return sent


@pytest.fixture
def host(db, settings) -> Iterator[VirtualNode]:
    """A virtual node with four cards, registered as the node gpu-1, its devices enabled."""
    settings.MIABI_STOP_GRACE_SECONDS = 0
    virtual = VirtualNode.with_cards("gpu-1", 4, pull_seconds=0)
    with serve([virtual]) as serving:
        node = make_node("gpu-1", address=serving.url_of(virtual))
        for index, card in enumerate(virtual.cards):
            make_device(node, uuid=card.uuid, index=index)
        yield virtual

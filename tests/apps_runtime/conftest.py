"""What the tests of apps start from."""

from __future__ import annotations

import pytest
from celery import current_app


@pytest.fixture(autouse=True)
def gpus_on(settings):
    settings.MIABI_GPU_ENABLED = True


@pytest.fixture
def wakes(monkeypatch) -> list[int]:
    """Apps that a worker was woken for; nothing is sent."""
    sent: list[int] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **kwargs: sent.append(args[0]))
    return sent

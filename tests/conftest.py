"""What holds for every test: that it runs at all, and on the database it is about."""

from __future__ import annotations

import signal
from types import FrameType

import pytest
from django.db import connection

from tests.complete_run import CompleteRun, make_ids_unique
from tests.services.needs import need

pytest_plugins = ["tests.services.fixtures"]

SHARED_PARTS = {
    "docker_engine": "engine",
    "docker_engine_nvidia_default": "engine",
    "docker_engine_without_toolkit": "engine",
    "chromium": "browser",
}
"""Fixtures that start something large, and the marker of the tests that use them."""


def pytest_configure(config: pytest.Config) -> None:
    """Stop on SIGTERM as on Ctrl-C: fixtures are torn down, servers stopped."""
    signal.signal(signal.SIGTERM, stop)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CompleteRun())


def stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by the large parts they use."""
    make_ids_unique(items)
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if marker := SHARED_PARTS.get(fixture):
                item.add_marker(marker)


@pytest.fixture(autouse=True)
def _right_database(request: pytest.FixtureRequest) -> None:
    for marker, vendor in (("postgres", "postgresql"), ("sqlite", "sqlite")):
        if request.node.get_closest_marker(marker) and connection.vendor != vendor:
            need(f"this test is about {vendor} and the tests run on {connection.vendor} (see `make test`)")

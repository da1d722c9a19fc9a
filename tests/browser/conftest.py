"""A browser, a running product with a virtual node, and a worker, for the walks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.db import connections
from playwright.sync_api import Browser, Page, sync_playwright

from apps_runtime import reconcile, steps
from engines.virtual.node import VirtualNode
from engines.virtual.serving import serve
from gpus.inventory import probe_node
from gpus.models import Node
from tests.factories import make_node

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    # Playwright's loop lives in this thread; Django would take its database calls for asynchronous ones.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, live_server) -> Iterator[Page]:
    """A new browser profile at the product's address; a fault in a page's script fails the test."""
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    made = context.new_page()
    made.on("pageerror", lambda error: faults.append(str(error)))
    yield made
    context.close()
    assert faults == []


@pytest.fixture(autouse=True)
def _platform(settings, monkeypatch) -> None:
    settings.MIABI_GPU_ENABLED = True
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    monkeypatch.setattr(current_app, "send_task", lambda *args, **kwargs: None)


@pytest.fixture
def node(tmp_path: Path, transactional_db) -> Iterator[Node]:
    """A virtual node with four cards, served for real."""
    virtual = VirtualNode.with_cards("virtual", 4, pull_seconds=0.3)
    with serve([virtual], tmp_path) as serving:
        yield make_node("virtual", address=serving.urls[0], gpu_capable=False)


@pytest.fixture
def worker(node: Node) -> Iterator[None]:
    """What Celery's worker and beat do, in a thread: due apps, requested probes, reconcile."""
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.wait(0.1):
                for app_id in list(steps.due_apps()):
                    steps.advance(app_id)
                asked = Node.objects.get(pk=node.pk)
                if asked.probe_requested_at and (
                    asked.last_probe_at is None or asked.last_probe_at < asked.probe_requested_at
                ):
                    probe_node(node.pk)
                reconcile.reconcile_node(node.pk)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    yield
    stop.set()
    thread.join(20)

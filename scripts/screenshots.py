"""``make screenshots``: the pictures of the documentation, from a demonstration that is made for them."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from playwright.sync_api import Browser, sync_playwright

from scripts.installation import ROOT, answers
from tests.services.service import free_port

IMAGES = ROOT / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SHOTS = {
    "console-dashboard": ("operator", "/admin/", 1440, "light"),
    "console-node": ("operator", "/admin/gpus/node/1/change/", 1440, "light"),
    "console-deployment": ("operator", "/admin/apps_runtime/deployment/1/change/", 1440, "dark"),
    "tenant-apps": ("ann", "/w/vision/apps", 1440, "light"),
    "tenant-app": ("ann", "/w/vision/apps/inference", 1440, "light"),
    "tenant-new-app-phone": ("ann", "/w/vision/apps/-/new", 390, "dark"),
}


def main() -> int:
    password = secrets.token_urlsafe(12)
    with tempfile.TemporaryDirectory(prefix="miabi-pictures-") as folder:
        os.environ |= {
            "MIABI_DATA_DIR": folder,
            "MIABI_GPU_ENABLED": "true",
            "MIABI_LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "miabi.settings",
            "DJANGO_ALLOW_ASYNC_UNSAFE": "true",
        }
        port = free_port()
        with demonstration(Path(folder), password):
            server = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "miabi.wsgi", "--bind", f"127.0.0.1:{port}", "--threads", "4"],
                cwd=ROOT,
            )
            try:
                take(f"http://127.0.0.1:{port}", password)
            finally:
                server.terminate()
                server.wait()
    return 0


@contextmanager
def demonstration(folder: Path, password: str) -> Iterator[None]:
    """A fleet of two virtual nodes with what people run on it; its nodes are served while the context is open."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from celery import current_app

    from apps_runtime import lifecycle, steps
    from engines.virtual.node import VirtualNode
    from engines.virtual.serving import serve
    from gpus.inventory import probe_node
    from gpus.models import GpuDevice
    from tests.factories import make_app, make_member, make_node, make_operator, make_plan, make_workspace
    from workspaces.audit import PLATFORM

    with mock.patch.object(current_app, "send_task"):
        good = VirtualNode.with_cards("gpu-1", 4, pull_seconds=0.0)
        bad = VirtualNode.with_cards("gpu-2", 2)
        bad.toolkit = False
        with serve([good, bad], folder) as serving:
            for virtual, url in zip((good, bad), serving.urls, strict=True):
                probe_node(make_node(virtual.name, address=url, gpu_capable=False).pk)
            GpuDevice.objects.filter(index__lt=3).update(enabled=True)
            plan = make_plan("gpu", gpu_limit=4)
            make_operator("operator", password=password)
            for slug, names in (("vision", ("inference", "trainer")), ("speech", ("transcribe",))):
                workspace = make_workspace(slug, plan=plan)
                for name in names:
                    app = make_app(
                        workspace, name, gpu=1, gpu_kind="l4", command=["sh", "-c", "nvidia-smi -L; sleep 9999"]
                    )
                    lifecycle.request_deploy(app, actor=PLATFORM)
                    steps.advance(app.pk)
            member = make_member(workspace=plan.workspaces.get(slug="vision"), role="owner", username="ann")
            member.set_password(password)
            member.save()
            yield


def take(url: str, password: str) -> None:
    deadline = time.monotonic() + 30
    while not answers(url) and time.monotonic() < deadline:
        time.sleep(0.2)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        for name, (user, path, width, scheme) in SHOTS.items():
            shoot(browser, url, user, password, path, width, scheme, IMAGES / f"{name}.png")
            print(f"docs/images/{name}.png")
        browser.close()


def shoot(browser: Browser, url: str, user: str, password: str, path: str, width: int, scheme: str, to: Path) -> None:
    context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("[name=username]", user)
    page.fill("[name=password]", password)
    page.click("main button")
    page.goto(f"{url}{path}")
    page.wait_for_timeout(1200)
    page.screenshot(path=str(to))
    context.close()


if __name__ == "__main__":
    sys.exit(main())

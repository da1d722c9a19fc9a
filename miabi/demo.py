"""The main job, played through the public API: from a discovered card to a container that
sees exactly that card, and the units free again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import requests


class DemoFailed(Exception):
    """A step did not come out as it should."""


@dataclass(slots=True)
class Client:
    """One bearer token against one installation."""

    url: str
    token: str = field(repr=False)

    def call(self, method: str, path: str, *, expect: int, **kwargs: Any) -> Any:
        """The JSON (or text) answer; DemoFailed when the status is not ``expect``."""
        answer = requests.request(
            method,
            f"{self.url}/api/v1{path}",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
            **kwargs,
        )
        if answer.status_code != expect:
            raise DemoFailed(f"{method} {path}: {answer.status_code} instead of {expect}: {answer.text[:500]}")
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.json() if is_json else answer.text


@dataclass(slots=True)
class Demo:
    operator: Client
    tenant: Client
    workspace: str
    image: str
    say: Callable[[str], None]

    def play(self) -> None:
        """All steps, each printed as it comes out.

        Raises:
            DemoFailed: at the first step that does not.
        """
        self._clean_up()
        node = self._rescan()
        self._enable(node)
        limit = self._capabilities()
        app = self._deploy("demo-gpu", gpu=1)
        self._inside(app)
        self._quota_refusal(limit)
        self._stop(app)
        self._freed(limit)
        self._clean_up()

    def _rescan(self) -> dict[str, Any]:
        nodes = self.operator.call("GET", "/admin/nodes", expect=200)["results"]
        if not nodes:
            raise DemoFailed("No node is registered: add one in the console.")
        node: dict[str, Any] = nodes[0]
        self.say(f"1. Rescan node {node['name']}")
        self.operator.call("POST", f"/admin/nodes/{node['id']}/gpus/rescan", expect=202)
        asked = time.monotonic()
        before = node["last_probe_at"]
        while time.monotonic() - asked < 120:
            node = self.operator.call("GET", f"/admin/nodes/{node['id']}", expect=200)
            if node["last_probe_at"] != before:
                break
            time.sleep(0.3)
        if not node["last_probe_ok"]:
            raise DemoFailed(f"The probe found no usable cards: {node['last_probe_error']} {node['last_probe_detail']}")
        return node

    def _enable(self, node: dict[str, Any]) -> None:
        devices = self.operator.call("GET", f"/admin/nodes/{node['id']}/gpus", expect=200)["results"]
        self.say(f"   {len(devices)} card(s) found, new ones are off until an operator enables them")
        for device in devices:
            if not device["enabled"]:
                self.operator.call(
                    "PATCH",
                    f"/admin/nodes/{node['id']}/gpus/{device['id']}",
                    expect=200,
                    json={"enabled": True},
                )
            self.say(f"2. Enabled {device['model']} {device['uuid']}")

    def _capabilities(self) -> int:
        answer = self.tenant.call("GET", f"/workspaces/{self.workspace}/capabilities", expect=200)
        limit: int = answer["gpu"]["limit"]
        self.say(f"3. Workspace {self.workspace} may hold {limit} GPU unit(s), {answer['gpu']['used']} held now")
        return limit

    def _deploy(self, name: str, *, gpu: int) -> dict[str, Any]:
        image, _, tag = self.image.partition(":")
        self.tenant.call(
            "POST",
            f"/workspaces/{self.workspace}/apps",
            expect=201,
            json={
                "name": name,
                "image": image,
                "tag": tag,
                "command": ["sh", "-c", "nvidia-smi -L; sleep infinity"],
                "gpu": gpu,
            },
        )
        deployment = self.tenant.call("POST", f"/workspaces/{self.workspace}/apps/{name}/deploy", expect=202)
        self.say(f"4. Deploy of {name} with {gpu} GPU: accepted as #{deployment['number']}, {deployment['state']}")
        path = f"/workspaces/{self.workspace}/apps/{name}/deployments/{deployment['number']}"
        deployment = self._until(path, {"running", "failed", "stopped"})
        if deployment["state"] != "running":
            raise DemoFailed(f"It ended {deployment['state']}: {deployment['reason']}")
        self.say(f"   {deployment['state']}, devices checked inside: {deployment['verification']}")
        return {"name": name, "path": path, **deployment}

    def _until(self, path: str, states: set[str]) -> dict[str, Any]:
        asked = time.monotonic()
        while True:
            deployment: dict[str, Any] = self.tenant.call("GET", path, expect=200)
            if deployment["state"] in states:
                return deployment
            if time.monotonic() - asked > 180:
                raise DemoFailed(f"Still {deployment['state']} after three minutes.")
            time.sleep(0.2)

    def _inside(self, app: dict[str, Any]) -> None:
        asked = time.monotonic()
        text = ""
        while "GPU-" not in text and time.monotonic() - asked < 20:
            text = self.tenant.call("GET", f"/workspaces/{self.workspace}/apps/{app['name']}/logs", expect=200)
            time.sleep(0.2)
        self.say("5. nvidia-smi -L inside the container says")
        for line in text.splitlines():
            self.say(f"     {line}")
        granted = {device["uuid"] for device in app["devices"]}
        seen = {uuid for uuid in granted if uuid in text}
        if seen != granted or text.count("GPU-") != len(granted):
            raise DemoFailed(f"Granted {sorted(granted)}, but the container shows something else.")

    def _quota_refusal(self, limit: int) -> None:
        if limit < 0:
            self.say("6. No quota refusal to show: this workspace's GPUs are unlimited")
            return
        name = "demo-too-many"
        image, _, tag = self.image.partition(":")
        body = {"name": name, "image": image, "tag": tag, "gpu": limit}
        self.tenant.call("POST", f"/workspaces/{self.workspace}/apps", expect=201, json=body)
        refusal = self.tenant.call("POST", f"/workspaces/{self.workspace}/apps/{name}/deploy", expect=409)
        if refusal["code"] != "gpu_quota_exceeded":
            raise DemoFailed(f"Refused as {refusal['code']} instead of gpu_quota_exceeded.")
        self.say(f"6. {limit} more: 409 {refusal['code']}: {refusal['detail']}")

    def _stop(self, app: dict[str, Any]) -> None:
        self.tenant.call("POST", f"/workspaces/{self.workspace}/apps/{app['name']}/stop", expect=202)
        deployment = self._until(app["path"], {"stopped", "failed"})
        self.say(f"7. Stop: {deployment['state']}, the engine confirmed that the container is gone")

    def _freed(self, limit: int) -> None:
        gpu = self.tenant.call("GET", f"/workspaces/{self.workspace}/capabilities", expect=200)["gpu"]
        if gpu["used"] != 0:
            raise DemoFailed(f"{gpu['used']} unit(s) are still held.")
        self.say(f"8. Units freed: 0 of {limit} held")

    def _clean_up(self) -> None:
        for name in ("demo-gpu", "demo-too-many"):
            path = f"/workspaces/{self.workspace}/apps/{name}"
            names = self.tenant.call("GET", f"/workspaces/{self.workspace}/apps?page_size=500", expect=200)["results"]
            if name not in {app["name"] for app in names}:
                continue
            self.tenant.call("DELETE", path, expect=202)
            asked = time.monotonic()
            while time.monotonic() - asked < 60:
                names = self.tenant.call("GET", f"/workspaces/{self.workspace}/apps?page_size=500", expect=200)[
                    "results"
                ]
                if name not in {app["name"] for app in names}:
                    break
                time.sleep(0.2)

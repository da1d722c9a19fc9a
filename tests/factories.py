"""Plain functions that make the rows tests start from, with sensible defaults."""

from __future__ import annotations

import itertools
from typing import Any

from apps_runtime.models import App
from gpus.models import GpuDevice, Node
from plans.models import Plan
from workspaces.models import Membership, User, Workspace

_count = itertools.count(1)


def make_plan(name: str = "", **fields: Any) -> Plan:
    defaults: dict[str, Any] = {"gpu_allowed": True, "gpu_limit": -1}
    return Plan.objects.create(name=name or f"plan-{next(_count)}", **(defaults | fields))


def make_workspace(slug: str = "", plan: Plan | None = None, **fields: Any) -> Workspace:
    return Workspace.objects.create(slug=slug or f"team-{next(_count)}", plan=plan or make_plan(), **fields)


def make_user(username: str = "", **fields: Any) -> User:
    return User.objects.create_user(username or f"user-{next(_count)}", **fields)


def make_operator(username: str = "", **fields: Any) -> User:
    return make_user(username, is_staff=True, is_superuser=True, **fields)


def make_member(workspace: Workspace, role: str = "developer", username: str = "") -> User:
    user = make_user(username)
    Membership.objects.create(workspace=workspace, user=user, role=role)
    return user


def make_node(name: str = "", **fields: Any) -> Node:
    defaults: dict[str, Any] = {
        "engine": Node.Engine.VIRTUAL,
        "address": "unix:///nowhere/engine.sock",
        "gpu_capable": True,
        "reachable": True,
        "last_probe_ok": True,
    }
    return Node.objects.create(name=name or f"node-{next(_count)}", **(defaults | fields))


def make_device(node: Node, **fields: Any) -> GpuDevice:
    number = next(_count)
    defaults: dict[str, Any] = {
        "uuid": f"GPU-00000000-0000-0000-0000-{number:012d}",
        "model": "NVIDIA L4",
        "memory_mib": 23034,
        "index": number,
        "enabled": True,
    }
    return GpuDevice.objects.create(node=node, **(defaults | fields))


def make_app(workspace: Workspace, name: str = "", **fields: Any) -> App:
    defaults: dict[str, Any] = {"image": "registry.example.com/acme/app", "tag": "1"}
    return App.objects.create(workspace=workspace, name=name or f"app-{next(_count)}", **(defaults | fields))

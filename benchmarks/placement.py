"""One deploy request's transaction at 10, 100 and 1,000 nodes of 10 cards, 90 % of them held."""

from __future__ import annotations

import time
from unittest import mock

from benchmarks.report import Figure, Section, ms, p50, p99

SIZES = (10, 100, 1000)
ROUNDS = 60
CARDS = 10


def run() -> Section:
    medians: dict[int, float] = {}
    figures = []
    for nodes in SIZES:
        for kind, word in (("", "any kind"), ("a100", "kind a100")):
            values = _measure(nodes, kind)
            if not kind:
                medians[nodes] = p50(values)
            figures.append(
                Figure(
                    f"{nodes * CARDS:,} cards on {nodes:,} nodes, {word}",
                    f"p50 {ms(p50(values))}, p99 {ms(p99(values))}",
                    "p50 under 15 ms",
                    p50(values) < 0.015,
                )
            )
    growth = medians[SIZES[-1]] / medians[SIZES[0]]
    figures.append(Figure("10,000 cards against 100", f"{growth:.2f} times", "at most 1.50", growth <= 1.5))
    return Section(
        "Placement",
        f"`lifecycle.request_deploy` on PostgreSQL with {ROUNDS} requests each, sent wake-ups left out: permission, "
        "quota, placement, leases, the deployment and its trace, to the commit. Two models, alternating.",
        figures,
    )


def _measure(nodes: int, kind: str) -> list[float]:
    from celery import current_app
    from django.db import connection

    from apps_runtime import lifecycle
    from tests.factories import make_app, make_workspace
    from workspaces.audit import PLATFORM

    clear()
    _fill(nodes)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    workspace = make_workspace()
    taken = []
    with mock.patch.object(current_app, "send_task"):
        for _ in range(ROUNDS + 5):
            app = make_app(workspace, gpu=1, gpu_kind=kind)
            began = time.perf_counter()
            lifecycle.request_deploy(app, actor=PLATFORM)
            taken.append(time.perf_counter() - began)
            # The fleet stays as full as it was.
            lifecycle.request_stop(app, actor=PLATFORM)
            _end(app)
    return taken[5:]


def _end(app: object) -> None:
    from apps_runtime import steps

    steps.advance(app.pk)  # type: ignore[attr-defined]


def _fill(nodes: int) -> None:
    """Nodes with ten cards, nine of them held by deployments of one workspace a node."""
    from apps_runtime.models import App, Deployment, DeviceLease
    from gpus.models import GpuDevice, Node
    from tests.factories import make_plan
    from workspaces.models import Workspace

    plan = make_plan()
    made = Node.objects.bulk_create(
        Node(name=f"node-{n}", engine="virtual", address="unix:///x", gpu_capable=True, reachable=True)
        for n in range(nodes)
    )
    workspaces = Workspace.objects.bulk_create(Workspace(slug=f"full-{n}", plan=plan) for n in range(nodes))
    models = ("NVIDIA L4", "NVIDIA A100-SXM4-80GB")
    devices = GpuDevice.objects.bulk_create(
        GpuDevice(
            node=node,
            uuid=f"GPU-{node.pk:08d}-{slot}",
            model=models[(number + slot) % 2],
            index=slot,
            enabled=True,
            held=int(slot > 0),
        )
        for number, node in enumerate(made)
        for slot in range(CARDS)
    )
    apps = App.objects.bulk_create(
        App(workspace=workspaces[n], name="app", image="x", gpu=CARDS - 1) for n in range(nodes)
    )
    spec = {"workspace": "w", "name": "app", "image": "x", "gpu": CARDS - 1, "gpu_kind": ""}
    deployments = Deployment.objects.bulk_create(
        Deployment(
            app=apps[n],
            workspace=workspaces[n],
            number=1,
            spec=spec,
            node=made[n],
            state="running",
            gpu_units=CARDS - 1,
        )
        for n in range(nodes)
    )
    DeviceLease.objects.bulk_create(
        DeviceLease(deployment=deployments[number // CARDS], device=device, slot=0)
        for number, device in enumerate(devices)
        if device.held
    )


def clear() -> None:
    from apps_runtime.models import App, Deployment, DeploymentEvent, DeviceLease
    from gpus.models import Node
    from workspaces.models import Workspace

    for model in (DeviceLease, DeploymentEvent, Deployment, App, Node):
        model.objects.all().delete()
    Workspace.objects.all().delete()

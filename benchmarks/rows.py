"""Rows of a filled fleet, and their removal."""

from __future__ import annotations

CARDS = 10
MODELS = ("NVIDIA L4", "NVIDIA A100-SXM4-80GB", "Tesla T4", "NVIDIA H100 80GB HBM3")


def fill(nodes: int) -> None:
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
    devices = GpuDevice.objects.bulk_create(
        GpuDevice(
            node=node,
            uuid=f"GPU-{node.pk:08d}-{slot}",
            model=MODELS[(number + slot) % len(MODELS)],
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

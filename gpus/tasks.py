"""Celery's side of the inventory: each task calls one service function."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from gpus import inventory
from gpus.models import Node


@shared_task(expires=600)
def probe_node(node_id: int) -> None:
    """Probe one node; a second probe of it at the same time does nothing."""
    inventory.probe_node(node_id)


@shared_task
def start_inventory() -> None:
    """One message a node, so that a node that hangs delays no other."""
    if not settings.MIABI_GPU_ENABLED:
        return
    expires = settings.MIABI_GPU_INVENTORY_MINUTES * 60
    for node_id in Node.objects.order_by("pk").values_list("pk", flat=True):
        probe_node.apply_async((node_id,), expires=expires)

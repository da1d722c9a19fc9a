"""Celery's side of the inventory: each task calls one service function.

The worker runs threads, which Celery cannot interrupt: a probe is bounded by the deadlines of
its own steps, not by a task's time limit.
"""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from gpus import inventory
from gpus.inventory_rounds import take_due_nodes
from gpus.models import Node


@shared_task(expires=600)
def probe_node(node_id: int) -> None:
    """Probe one node; a second probe of it at the same time does nothing."""
    try:
        inventory.probe_node(node_id)
    except Node.DoesNotExist:
        # Removed since the message was sent.
        return


@shared_task
def start_inventory() -> None:
    """One message a node, so that a node that hangs delays no other.

    A message that is not taken before the next round is worth nothing any more.
    """
    for node_id in take_due_nodes():
        probe_node.apply_async((node_id,), expires=settings.MIABI_GPU_INVENTORY_MINUTES * 60)

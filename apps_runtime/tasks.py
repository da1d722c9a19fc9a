"""Celery's side: each task calls one service function. Every one may run twice, late or never."""

from __future__ import annotations

from celery import shared_task

from apps_runtime import reconcile as reconciling
from apps_runtime import steps
from apps_runtime.waking import wake


@shared_task
def advance_app(app_id: int) -> None:
    """Do what is due for one app."""
    steps.advance(app_id)


@shared_task
def sweep() -> None:
    """Wake every app with work left that nobody is doing: lost messages, dead workers, retries."""
    for app_id in steps.due_apps():
        wake(app_id)


@shared_task
def start_reconcile() -> None:
    """One message a node, so that a node that hangs delays no other."""
    for node_id in reconciling.nodes_to_reconcile():
        reconcile_node.apply_async((node_id,), expires=60)


@shared_task
def reconcile_node(node_id: int) -> None:
    """Bring one node's rows and containers together."""
    reconciling.reconcile_node(node_id)

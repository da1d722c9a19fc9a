"""Bring the rows and the containers of a node to the same truth.

Rows are read first, then containers, then each difference is settled by a
compare-and-set, so whatever changes meanwhile wins over what was read:

    row live, container ended       the row is marked as ending, with the exit code
    row running, container gone     the same, as failed
    container of ours, no live row  the container is removed
    lease of an ended deployment    ended, once its container is known to be gone
    held count off the leases       counted anew

A container without this installation's labels is never looked at, let alone touched. An
unreachable node changes nothing but its light: its leases stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog
from django.db import transaction
from django.db.models import Count

from apps_runtime import leases, transitions
from apps_runtime.bring_up import note_end
from apps_runtime.models import Deployment, DeviceLease
from apps_runtime.specs import LABEL_PREFIX, owner_labels
from apps_runtime.states import LIVE, TERMINAL, State
from apps_runtime.waking import wake_after_commit
from engines.contract import (
    ContainerNotFound,
    ContainerPhase,
    ContainerStatus,
    Engine,
    EngineError,
    EngineUnreachable,
)
from gpus.connections import engine_for
from gpus.contact import record_contact
from gpus.models import GpuDevice, Node, installation_uid
from gpus.nodes import finish_drain

log = structlog.get_logger(__name__)

ENDED = frozenset({ContainerPhase.EXITED, ContainerPhase.DEAD})


@dataclass(slots=True)
class ReconcileReport:
    """What one pass over a node found and settled."""

    node: str
    reachable: bool = True
    containers: int = 0
    ended: int = 0
    """Live rows whose container had ended or was gone."""
    removed: int = 0
    """Containers of ours that should not be."""
    leases_ended: int = 0
    counts_mended: int = 0
    problems: list[str] = field(default_factory=list)


def nodes_to_reconcile() -> Iterator[int]:
    return Node.objects.order_by("pk").values_list("pk", flat=True).iterator()


def reconcile_node(node_id: int) -> ReconcileReport:
    """One pass over one node. Safe to run twice, at the same time too."""
    node = Node.objects.get(pk=node_id)
    report = ReconcileReport(node.name)
    rows = {row.pk: row for row in Deployment.objects.live().filter(node=node)}
    try:
        engine = engine_for(node)
        containers = engine.list_containers(owner_labels(installation_uid()))
    except EngineError as error:
        report.reachable = not isinstance(error, EngineUnreachable)
        report.problems.append(error.message)
        record_contact(node_id, reachable=report.reachable)
        return report
    record_contact(node_id, reachable=True)
    report.containers = len(containers)
    by_deployment = _by_deployment(containers)
    for row in rows.values():
        _settle_row(engine, row, by_deployment.get(row.pk), report)
    for container in containers:
        _settle_container(engine, node, container, report)
    _settle_leases(node, by_deployment, report)
    if node.drain_state == Node.DrainState.DRAINING:
        finish_drain(node_id)
    return report


def _by_deployment(containers: list[ContainerStatus]) -> Mapping[int, ContainerStatus]:
    found = {}
    for container in containers:
        label = container.labels.get(LABEL_PREFIX + "deployment", "")
        if label.isdigit():
            found[int(label)] = container
    return found


def _settle_row(engine: Engine, row: Deployment, container: ContainerStatus | None, report: ReconcileReport) -> None:
    if row.state != State.RUNNING or row.exit_to:
        return
    if container is not None and container.phase not in ENDED:
        return
    try:
        status = engine.inspect(row.engine_handle)
    except ContainerNotFound:
        status = None
    except EngineError as error:
        report.problems.append(error.message)
        return
    if status is not None and status.phase not in ENDED:
        return
    with transaction.atomic():
        if status is not None:
            note_end(row, status)
        else:
            transitions.mark_ending(
                row,
                State.FAILED,
                code="container_gone",
                reason="The container disappeared from its node. Deploy again.",
            )
        wake_after_commit(row.app_id)
    report.ended += 1


def _settle_container(engine: Engine, node: Node, container: ContainerStatus, report: ReconcileReport) -> None:
    label = container.labels.get(LABEL_PREFIX + "deployment", "")
    row = Deployment.objects.filter(pk=int(label)).first() if label.isdigit() else None
    # Whichever node the row names: one engine may be registered as two nodes.
    if row is not None and row.state in LIVE and row.engine_handle in ("", container.id):
        return
    log.warning("removing_stray_container", node=node.name, container=container.name, deployment=label)
    try:
        engine.remove(container.id)
    except EngineError as error:
        report.problems.append(error.message)
        return
    report.removed += 1


def _settle_leases(node: Node, by_deployment: Mapping[int, ContainerStatus], report: ReconcileReport) -> None:
    """End what ended deployments still hold, and count ``held`` anew where it is off."""
    left = Deployment.objects.filter(node=node, state__in=sorted(TERMINAL), leases__isnull=False).distinct()
    for deployment in left:
        if deployment.pk not in by_deployment:
            with transaction.atomic():
                leases.end(deployment)
            report.leases_ended += 1
    if not _miscounted(node):
        return
    with transaction.atomic():
        leases.lock_devices(node.pk)
        for device_id, count in _miscounted(node).items():
            GpuDevice.objects.filter(pk=device_id).update(held=count)
            log.error("held_count_mended", node=node.name, device=device_id, held=count)
            report.counts_mended += 1


def _miscounted(node: Node) -> dict[int, int]:
    counts = dict(
        DeviceLease.objects.filter(device__node=node)
        .order_by()
        .values("device")
        .annotate(count=Count("pk"))
        .values_list("device", "count")
    )
    devices = GpuDevice.objects.filter(node=node).values_list("pk", "held")
    return {pk: counts.get(pk, 0) for pk, held in devices if held != counts.get(pk, 0)}

"""Probe a node and keep what it says: claim, ask, apply.

The node's claim is the probe's: two probes of a node never overlap, whoever starts them,
and a probe that outlives its claim drops its result. A failed probe changes no device; it
marks the inventory as stale and says why.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from engines.contract import ContainerStatus
from gpus import claims
from gpus.connections import engine_for
from gpus.merge import MergeResult, mark_all_missing, merge
from gpus.models import Node, installation_uid
from gpus.node_facts import facts_of, without_contact
from gpus.preflight import unreachable
from gpus.probe_failures import FailureReason
from gpus.probing import ProbeAnswer, ProbeRequest, probe

log = structlog.get_logger(__name__)

NODE_LABEL = "io.miabi.node"
TOOLKIT_VERSION_LABEL = "nvidia.com/toolkit-version"
"""Label of a node that states its toolkit's version, which no engine tells."""

# After these the node cannot be trusted to attach a card; after the others what was known
# before still holds, since the cards themselves were not spoken to.
INCAPABLE = frozenset(
    {
        FailureReason.TOOLKIT_MISSING,
        FailureReason.NO_ISOLATION,
        FailureReason.DRIVER_MISSING,
        FailureReason.DRIVER_MISMATCH,
        FailureReason.NO_DEVICES,
        FailureReason.HUNG,
    }
)


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """How one probe came out. ``code`` is "" when all is well."""

    node: str
    ran: bool
    code: str = ""
    sentence: str = ""
    hint: str = ""
    devices: int = 0
    added: int = 0
    vanished: int = 0
    seconds: float = 0.0


def probe_node(node_id: int) -> ProbeOutcome:
    """Probe one node now.

    Not run (``ran`` false, with the code) when GPUs are switched off, or when another
    probe of the node is on its way.

    Raises:
        Node.DoesNotExist
    """
    node = Node.objects.get(pk=node_id)
    if not settings.MIABI_GPU_ENABLED:
        return ProbeOutcome(node.name, False, "gpu_disabled", "GPUs are switched off (MIABI_GPU_ENABLED).")
    token = claims.take(Node, node_id)
    if token is None:
        return ProbeOutcome(node.name, False, "probe_running", f"Node {node.name} is being probed already.")
    try:
        # Read anew: what changed before the claim was ours belongs to this probe.
        node.refresh_from_db()
        with claims.renewing(Node, node_id, token):
            answer = probe(engine_for(node), _request(node))
        return _apply(node, token, answer)
    except claims.ClaimLost:
        log.warning("probe_result_dropped", node=node.name)
        return ProbeOutcome(node.name, False, "probe_overtaken", "Another probe took over; this result was dropped.")
    finally:
        claims.release(Node, node_id, token)


def _request(node: Node) -> ProbeRequest:
    installation = str(installation_uid())
    labels = {"io.miabi.installation": installation, "io.miabi.role": "probe"}
    return ProbeRequest(
        container_name=f"miabi-probe-{installation[:8]}-{node.pk}",
        image=node.probe_image or settings.MIABI_GPU_PROBE_IMAGE,
        labels=labels | {NODE_LABEL: str(node.pk)},
        probe_labels=labels,
        is_leftover=lambda container: _is_leftover(container, node),
        runtime_name=settings.MIABI_NVIDIA_RUNTIME,
        attach_mode="cdi" if node.attach_mode == Node.AttachMode.CDI else "device_request",
        toolkit_version=_toolkit_version(node),
        toolkit_floor=settings.MIABI_TOOLKIT_FLOOR,
        pull_deadline_s=settings.MIABI_PULL_TIMEOUT_SECONDS,
        wait_deadline_s=settings.MIABI_PROBE_WAIT_SECONDS,
        now=timezone.now(),
    )


def _is_leftover(container: ContainerStatus, node: Node) -> bool:
    """Ours: the claim says that no other probe of this node runs. Another node's: once its row is gone.

    Two nodes may be the same engine, registered twice, and be probed at the same time.
    """
    owner = container.labels.get(NODE_LABEL, "")
    return owner == str(node.pk) or not (owner.isdecimal() and Node.objects.filter(pk=int(owner)).exists())


def _toolkit_version(node: Node) -> str:
    return str(node.labels.get(TOOLKIT_VERSION_LABEL, ""))


def _apply(node: Node, token: uuid.UUID, answer: ProbeAnswer) -> ProbeOutcome:
    problem = answer.failure
    merged = MergeResult()
    with transaction.atomic():
        locked = Node.objects.select_for_update(no_key=True).filter(pk=node.pk, claim_token=token).first()
        if locked is None:
            raise claims.ClaimLost
        if problem is None:
            merged = merge(node.pk, answer.report)
        elif problem.reason is FailureReason.NO_DEVICES:
            merged = MergeResult(vanished=mark_all_missing(node.pk))
        Node.objects.filter(pk=node.pk).update(**_columns(locked, answer, merged.warnings))
    if problem is not None:
        log.warning("probe_failed", node=node.name, code=problem.reason, detail=problem.detail[:300])
    return ProbeOutcome(
        node.name,
        True,
        code=problem.reason if problem else "",
        sentence=problem.sentence if problem else "",
        hint=problem.hint if problem else "",
        devices=0 if problem else len(answer.report.devices),
        added=merged.added,
        vanished=merged.vanished,
        seconds=answer.seconds,
    )


def _columns(node: Node, answer: ProbeAnswer, warnings: tuple[str, ...]) -> dict[str, Any]:
    """The node's columns after this answer."""
    now = timezone.now()
    problem = answer.failure
    columns: dict[str, Any] = {
        "last_probe_at": now,
        "last_probe_ok": problem is None,
        "last_probe_error": problem.reason if problem else "",
        "last_probe_detail": f"{problem.sentence} {problem.hint}\n{problem.detail}".strip() if problem else "",
        "probe_failures": F("probe_failures") + 1 if problem else 0,
        "reachable": problem is None or problem.reason is not FailureReason.UNREACHABLE,
        "updated_at": now,
    }
    facts: Mapping[str, Any] = node.facts
    if answer.facts is not None and answer.preflight is not None:
        columns["last_seen_at"] = now
        facts = facts_of(
            answer.facts,
            answer.preflight,
            answer.report,
            before=facts,
            warnings=warnings,
            toolkit_version=_toolkit_version(node),
            seconds=answer.seconds,
        )
    if problem is not None and problem.reason is FailureReason.UNREACHABLE:
        facts = without_contact(facts, unreachable(problem.sentence, problem.hint))
    columns["facts"] = facts
    if problem is None:
        columns |= {"last_good_probe_at": now, "gpu_capable": True}
    elif problem.reason in INCAPABLE:
        columns["gpu_capable"] = False
    return columns

"""Probe a node and keep what it says: claim, ask, apply.

The node's claim is the probe's: two probes of a node never overlap, whoever starts them,
and a probe that outlives its claim drops its result. A failed probe changes no device; it
marks the inventory as stale and says why.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from gpus import claims
from gpus.connections import engine_for
from gpus.merge import MergeResult, mark_all_missing, merge
from gpus.models import Node, installation_uid
from gpus.probe_failures import FailureReason
from gpus.probing import ProbeAnswer, ProbeRequest, probe

log = structlog.get_logger(__name__)

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
    """
    node = Node.objects.get(pk=node_id)
    if not settings.MIABI_GPU_ENABLED:
        return ProbeOutcome(node.name, False, "gpu_disabled", "GPUs are switched off (MIABI_GPU_ENABLED).")
    token = claims.take(Node, node_id)
    if token is None:
        return ProbeOutcome(node.name, False, "probe_running", f"Node {node.name} is being probed already.")
    try:
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
    return ProbeRequest(
        container_name=f"miabi-probe-{installation[:8]}-{node.pk}",
        image=node.probe_image or settings.MIABI_GPU_PROBE_IMAGE,
        labels={
            "io.miabi.installation": installation,
            "io.miabi.role": "probe",
            "io.miabi.node": str(node.pk),
        },
        runtime=settings.MIABI_NVIDIA_RUNTIME,
        cdi=node.attach_mode == Node.AttachMode.CDI,
        pull_deadline_s=settings.MIABI_PULL_TIMEOUT_SECONDS,
        wait_deadline_s=settings.MIABI_PROBE_WAIT_SECONDS,
        now=timezone.now(),
    )


def _apply(node: Node, token: uuid.UUID, answer: ProbeAnswer) -> ProbeOutcome:
    problem = answer.failure
    merged: MergeResult | None = None
    with transaction.atomic():
        locked = Node.objects.select_for_update(no_key=True).filter(pk=node.pk, claim_token=token).first()
        if locked is None:
            raise claims.ClaimLost
        if problem is None:
            merged = merge(node.pk, answer.report)
        elif problem.reason is FailureReason.NO_DEVICES:
            mark_all_missing(node.pk)
        Node.objects.filter(pk=node.pk).update(**_columns(answer, merged))
    if problem is not None:
        log.warning("probe_failed", node=node.name, code=problem.reason, detail=problem.detail[:300])
        return ProbeOutcome(node.name, True, problem.reason, problem.sentence, problem.hint, seconds=answer.seconds)
    assert merged is not None
    return ProbeOutcome(
        node.name,
        True,
        devices=len(answer.report.devices),
        added=merged.added,
        vanished=merged.vanished,
        seconds=answer.seconds,
    )


def _columns(answer: ProbeAnswer, merged: MergeResult | None) -> dict[str, Any]:
    """The node's columns after this answer."""
    now = timezone.now()
    problem = answer.failure
    columns: dict[str, Any] = {
        "last_probe_at": now,
        "last_probe_ok": problem is None,
        "last_probe_error": problem.reason if problem else "",
        "last_probe_detail": f"{problem.sentence} {problem.hint}\n{problem.detail}".strip() if problem else "",
        "probe_failures": F("probe_failures") + 1 if problem else 0,
        "reachable": answer.facts is not None,
    }
    if answer.facts is not None:
        columns["last_seen_at"] = now
        columns["facts"] = _facts(answer, merged)
    if problem is None:
        columns |= {"last_good_probe_at": now, "gpu_capable": True}
    elif problem.reason in INCAPABLE:
        columns["gpu_capable"] = False
    return columns


def _facts(answer: ProbeAnswer, merged: MergeResult | None) -> dict[str, Any]:
    """What the console shows of the node, as plain JSON."""
    facts, preflight = answer.facts, answer.preflight
    assert facts is not None
    assert preflight is not None
    told = asdict(facts)
    told["system_time"] = facts.system_time.isoformat() if facts.system_time else None
    return told | {
        "lights": [asdict(light) for light in preflight.lights],
        "driver_version": answer.report.driver_version,
        "cuda_version": answer.report.cuda_version,
        "warnings": [*answer.report.warnings, *(merged.warnings if merged else ())],
        "probe_seconds": round(answer.seconds, 3),
    }

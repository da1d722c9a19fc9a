"""Rescan a node while the caller waits."""

from __future__ import annotations

from gpus import inventory
from gpus.models import Node
from gpus.nodes import ProbingDisabled
from refusals import Conflict
from workspaces.audit import Actor, record


class ProbeRunning(Conflict):
    code = "probe_running"


def rescan_now(node: Node, *, actor: Actor) -> Node:
    """Probe ``node`` from here; how it came out is on the node that is returned.

    Takes as long as the probe does: seconds, or minutes when its image must be fetched.

    Raises:
        ProbingDisabled: GPUs are switched off.
        ProbeRunning: another probe of the node is on its way, or took over.
    """
    outcome = inventory.probe_node(node.pk)
    if not outcome.ran:
        refusal = ProbingDisabled if outcome.code == ProbingDisabled.code else ProbeRunning
        raise refusal(outcome.sentence)
    record(actor, "node.rescan", node, after={"devices": outcome.devices, "problem": outcome.code})
    node.refresh_from_db()
    return node

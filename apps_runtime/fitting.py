"""Does it fit now, and if not, why: for dry runs and forms. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps_runtime import admission
from apps_runtime.admission import NodeFit
from apps_runtime.models import App
from refusals import Refusal
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class Fit:
    """``code`` and ``reason`` say what stands against it when no node could take it."""

    fits: bool
    code: str
    reason: str
    nodes: list[NodeFit]


def fit_of(workspace: Workspace, app: App, spec: Mapping[str, Any]) -> Fit:
    """Entitlement and quota first, then each node. ``app`` may be one that is not saved yet."""
    nodes = admission.fit(workspace, spec, app)
    try:
        admission.check_entitlement(workspace, app, spec)
    except Refusal as refusal:
        return Fit(False, refusal.code, refusal.detail, nodes)
    if any(node.fits for node in nodes):
        return Fit(True, "", "", nodes)
    if not nodes:
        return Fit(False, "node_unavailable", "No node is registered yet. Ask the operator.", nodes)
    first = nodes[0]
    more = f" The same holds for {len(nodes) - 1} other node(s)." if len(nodes) > 1 else ""
    return Fit(False, first.code, first.reason + more, nodes)

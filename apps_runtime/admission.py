"""The decision: entitlement, quota, placement and leases, together in one transaction.

Lock order is workspace, app, node, devices by id. A node that turns out not to serve is
given back by rolling back to a savepoint, so no transaction waits for a second node while
it holds a first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q

from apps_runtime import gates
from apps_runtime.gates import Ask, Usage
from apps_runtime.models import LIVE_STATES, App, Deployment, DeviceLease
from apps_runtime.placement import (
    Choice,
    Demand,
    Device,
    Grant,
    PassedOver,
    Shortfall,
    choose,
    explain,
    total,
)
from apps_runtime.specs import ask_of
from gpus.kinds import matches_kind
from gpus.models import GpuDevice, Node
from refusals import Conflict
from workspaces.models import Workspace

NODES_TRIED = 8


class NodeNotCapable(Conflict):
    code = "gpu_node_not_capable"


class NoDevice(Conflict):
    code = "gpu_no_device"


class NodeUnavailable(Conflict):
    code = "node_unavailable"


class _NotHere(Exception):
    def __init__(self, shortfall: Shortfall | None) -> None:
        self.shortfall = shortfall


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a deployment goes and which slots it gets there; the rows are locked."""

    node: Node
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Whether one node could serve an app now, and if not, why."""

    node: str
    fits: bool
    code: str = ""
    reason: str = ""


def enforced() -> bool:
    """Whether plans bind (``MIABI_PLAN_ENFORCEMENT``)."""
    return bool(settings.MIABI_PLAN_ENFORCEMENT)


def check_capability(workspace: Workspace, ask: Ask) -> None:
    """Refuse GPUs a workspace may not ask for; used when an app is saved and at each start."""
    gates.check_capability(
        workspace.slug,
        workspace.limits,
        ask,
        gpu_enabled=settings.MIABI_GPU_ENABLED,
        enforced=enforced(),
    )


def usage_of(workspace: Workspace, *, without: App | None = None) -> Usage:
    """What live deployments of the workspace hold, by app.

    An app in the middle of a redeploy has two live deployments, of which only one has a
    container at a time: the larger counts, not the sum.
    """
    rows = Deployment.objects.live().filter(workspace=workspace)
    if without is not None and without.pk:
        rows = rows.exclude(app=without)
    per_app: dict[int, tuple[int, int, int]] = {}
    for app_id, *amounts in rows.values_list("app_id", "gpu_units", "cpu_millis", "memory_mib"):
        before = per_app.get(app_id, (0, 0, 0))
        per_app[app_id] = (
            max(before[0], amounts[0]),
            max(before[1], amounts[1]),
            max(before[2], amounts[2]),
        )
    sums = [sum(column) for column in zip(*per_app.values(), strict=True)] or [0, 0, 0]
    return Usage(gpu=sums[0], cpu_millis=sums[1], memory_mib=sums[2], apps=len(per_app))


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit of a workspace: where it comes from, and what is used of it. -1: unlimited."""

    name: str
    plan: int
    override: int | None
    effective: int
    used: int

    @property
    def percent(self) -> int:
        if self.effective <= 0:
            return 100 if self.used and self.effective == 0 else 0
        return min(100, round(100 * self.used / self.effective))


def limit_rows(workspace: Workspace) -> list[LimitRow]:
    """Plan, override, effective value and use of each limit, for the console."""
    plan, override, limits = workspace.plan.limits, workspace.overrides, workspace.limits
    used = usage_of(workspace)
    apps = App.objects.filter(workspace=workspace).count()
    return [
        LimitRow("GPU units", plan.gpu_units, override.gpu_limit, limits.gpu_units, used.gpu),
        LimitRow("CPU (millicores)", plan.cpu_limit, override.cpu_limit, limits.cpu_limit, used.cpu_millis),
        LimitRow("Memory (MiB)", plan.memory_limit, override.memory_limit, limits.memory_limit, used.memory_mib),
        LimitRow("Apps", plan.app_limit, override.app_limit, limits.app_limit, apps),
    ]


def check_entitlement(workspace: Workspace, app: App, spec: Mapping[str, Any]) -> None:
    """Everything that does not depend on devices, under the workspace's lock.

    Raises:
        WorkspaceSuspended, what check_capability raises, what gates.check_quota raises
    """
    ask = ask_of(spec)
    gates.check_not_suspended(workspace.slug, workspace.suspended)
    check_capability(workspace, ask)
    if enforced():
        gates.check_quota(workspace.slug, workspace.limits, usage_of(workspace, without=app), ask)


def place(spec: Mapping[str, Any], current: Sequence[Deployment]) -> Placement:
    """Choose and lock a node and devices for ``spec``.

    ``current`` are the app's own live deployments: their devices may be inherited.

    Raises:
        NodeNotCapable, NoDevice, NodeUnavailable
    """
    demand = Demand(spec["gpu"], spec["gpu_kind"])
    if spec["node_id"] is not None:
        return _place_on_pinned(Node.objects.get(pk=spec["node_id"]), demand, current)
    shortfalls: list[Shortfall] = []
    for node_id in _candidates(demand, current):
        try:
            with transaction.atomic():
                return _try_node(node_id, demand, current)
        except _NotHere as no:
            if no.shortfall is not None:
                shortfalls.append(no.shortfall)
    raise _nowhere(demand)


def fit(workspace: Workspace, spec: Mapping[str, Any], app: App | None = None) -> list[NodeFit]:
    """Node by node, whether ``spec`` could be placed now. Takes no lock and changes nothing."""
    demand = Demand(spec["gpu"], spec["gpu_kind"])
    current = list(app.deployments.live()) if app is not None and app.pk else []
    nodes = Node.objects.filter(pk=spec["node_id"]) if spec["node_id"] else Node.objects.all()
    devices = _devices_of(
        GpuDevice.objects.filter(node__in=nodes).order_by("pk"), {deployment.pk for deployment in current}
    )
    return [_fit_on(node, demand, devices.get(node.pk, [])) for node in nodes]


def _fit_on(node: Node, demand: Demand, devices: list[Device]) -> NodeFit:
    refusal = _unusable(node, demand)
    if refusal is not None:
        return NodeFit(node.name, False, refusal.code, refusal.detail)
    outcome = choose(devices, demand)
    if isinstance(outcome, Shortfall):
        return NodeFit(node.name, False, NoDevice.code, explain(node.name, outcome))
    return NodeFit(node.name, True)


def _place_on_pinned(node: Node, demand: Demand, current: Sequence[Deployment]) -> Placement:
    refusal = _unusable(node, demand)
    if refusal is not None:
        raise refusal
    try:
        return _try_node(node.pk, demand, current)
    except _NotHere as no:
        if no.shortfall is None:
            raise _unusable(Node.objects.get(pk=node.pk), demand) or NodeUnavailable(_cordoned(node)) from no
        raise NoDevice(
            explain(node.name, no.shortfall) + " Stop an app that holds one, choose another kind or node, or ask the "
            "operator to enable more.",
            attr="gpu",
            facts=_facts(no.shortfall),
        ) from no


def _try_node(node_id: int, demand: Demand, current: Sequence[Deployment]) -> Placement:
    """Lock the node and its devices, look again, and choose. Raises _NotHere."""
    node = Node.objects.select_for_update(no_key=True).filter(pk=node_id).first()
    # It may have been removed since it was chosen.
    if node is None or _unusable(node, demand) is not None:
        raise _NotHere(None)
    if demand.count == 0:
        return Placement(node, ())
    rows = GpuDevice.objects.filter(node_id=node_id).order_by("pk").select_for_update(no_key=True, of=("self",))
    devices = _devices_of(rows, {deployment.pk for deployment in current}).get(node_id, [])
    outcome = choose(devices, demand)
    if isinstance(outcome, Choice):
        return Placement(node, outcome.grants)
    raise _NotHere(outcome)


def _candidates(demand: Demand, current: Sequence[Deployment]) -> Iterator[int]:
    """Ids of nodes worth trying, best first.

    The node the app is on comes first: its devices are its own. Then best fit, the node
    with the fewest free devices that suffice, which keeps large blocks whole for large
    demands. Only free devices are read, through the index ``gpu_free``.
    """
    usable = Node.objects.filter(schedulable=True, drain_state=Node.DrainState.NONE).exclude(reachable=False)
    at_home = [deployment.node_id for deployment in current][-1:]
    yield from at_home
    if demand.count == 0:
        spread = usable.annotate(live=Count("deployments", filter=Q(deployments__state__in=LIVE_STATES))).order_by(
            "live", "pk"
        )
        ids = spread.values_list("pk", flat=True)[:NODES_TRIED]
        yield from (pk for pk in ids if pk not in at_home)
        return
    free = (
        GpuDevice.objects.free()
        .filter(node__schedulable=True, node__drain_state=Node.DrainState.NONE, node__gpu_capable=True)
        .exclude(node__reachable=False)
    )
    if demand.kind:
        models = GpuDevice.objects.free().order_by().values_list("vendor", "model").distinct()
        wanted = Q(pk=None)
        for vendor, model in models:
            if matches_kind(model, vendor, demand.kind):
                wanted |= Q(vendor=vendor, model=model)
        free = free.filter(wanted)
    nodes = (
        free.order_by()
        .values("node_id")
        .annotate(count=Count("pk"))
        .filter(count__gte=demand.count)
        .order_by("count", "node_id")
        .values_list("node_id", flat=True)[:NODES_TRIED]
    )
    yield from (pk for pk in nodes if pk not in at_home)


def _unusable(node: Node, demand: Demand) -> Conflict | None:
    """Why nothing may be placed on the node at all, whatever is free there."""
    if not node.schedulable or node.drain_state != Node.DrainState.NONE:
        return NodeUnavailable(_cordoned(node), attr="node")
    if node.reachable is False:
        return NodeUnavailable(
            f"Node {node.name} cannot be reached at the moment. Choose another node, or try again later.",
            attr="node",
        )
    if demand.count and not node.gpu_capable:
        return NodeNotCapable(
            f"Node {node.name} cannot attach GPUs to containers at the moment. Choose another node, or ask the "
            "operator, whose console says how to mend it.",
            attr="node",
            facts={"node": node.name, "requested": demand.count},
            operator_detail=node.last_probe_detail,
        )
    return None


def _cordoned(node: Node) -> str:
    return f"Node {node.name} takes nothing new: it is cordoned. Choose another node, or ask the operator."


def _nowhere(demand: Demand) -> Conflict:
    """The refusal when no node of the fleet serves: what exists, all nodes together."""
    if not Node.objects.filter(schedulable=True, drain_state=Node.DrainState.NONE).exclude(reachable=False).exists():
        return NodeUnavailable(
            "No node takes new apps at the moment: none is registered, or all are cordoned or unreachable. "
            "Ask the operator.",
            attr="node",
        )
    capable = Node.objects.filter(schedulable=True, gpu_capable=True, drain_state=Node.DrainState.NONE).exclude(
        reachable=False
    )
    if not capable.exists():
        return NodeNotCapable(
            "No node can attach GPUs to containers at the moment. Set gpu to 0, or ask the operator, whose console "
            "says how to mend it.",
            attr="gpu",
            facts={"requested": demand.count},
        )
    devices = _devices_of(GpuDevice.objects.filter(node__in=capable).order_by("pk"), set())
    shortfalls = []
    for each in devices.values():
        outcome = choose(each, Demand(len(each) + 1, demand.kind))
        if isinstance(outcome, Shortfall):
            shortfalls.append(outcome)
    overall = total(shortfalls, demand)
    kind = f" of kind {demand.kind}" if demand.kind else ""
    passed = ", ".join(f"{count} {PassedOver(reason).value}" for reason, count in overall.passed_over)
    together = " together on one node" if overall.free >= demand.count else ""
    return NoDevice(
        f"No node has {demand.count} free device(s){kind}{together}: {overall.exist} exist, {overall.matching} "
        f"match, {overall.enabled} of them enabled, {overall.free} free{f' ({passed})' if passed else ''}. Stop an "
        "app that holds one, choose another kind, or ask the operator to enable more.",
        attr="gpu",
        facts=_facts(overall),
    )


def _facts(shortfall: Shortfall) -> dict[str, object]:
    return {
        "requested": shortfall.demand.count,
        "kind": shortfall.demand.kind,
        "exist": shortfall.exist,
        "matching": shortfall.matching,
        "enabled": shortfall.enabled,
        "free": shortfall.free,
    }


def _devices_of(rows: Any, own: set[int]) -> dict[int, list[Device]]:
    """The rows as placement sees them, by node, with the slots taken now. Two queries."""
    devices = list(rows)
    taken: dict[int, set[int]] = {}
    ours: dict[int, set[int]] = {}
    held = {device.pk for device in devices if device.held}
    for device_id, slot, holder in DeviceLease.objects.filter(device__in=held).values_list(
        "device_id", "slot", "deployment_id"
    ):
        taken.setdefault(device_id, set()).add(slot)
        if holder in own:
            ours.setdefault(device_id, set()).add(slot)
    overlapped = {device.parent_id for device in devices if device.held}
    by_node: dict[int, list[Device]] = {}
    for row in devices:
        by_node.setdefault(row.node_id, []).append(
            Device(
                id=row.pk,
                uuid=row.uuid,
                vendor=row.vendor,
                model=row.model,
                index=row.index,
                enabled=row.enabled,
                present=row.presence == GpuDevice.Presence.PRESENT,
                healthy=row.health == GpuDevice.Health.OK,
                mig_enabled=row.mig_enabled,
                shared=row.mode == GpuDevice.Mode.SHARED,
                slots=row.slots,
                taken=frozenset(taken.get(row.pk, ())),
                own=frozenset(ours.get(row.pk, ())),
                overlapped=row.pk in overlapped or row.parent_id in held,
            )
        )
    return by_node

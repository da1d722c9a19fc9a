"""What operators may do with a node: register, change, cordon, drain, rescan, remove."""

from __future__ import annotations

from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone
from kombu.exceptions import OperationalError

from gpus.addresses import check_address
from gpus.models import Node
from refusals import Conflict, Malformed, NotPermitted
from workspaces.audit import PLATFORM, Actor, record

log = structlog.get_logger(__name__)

PROBE_NODE = "gpus.tasks.probe_node"
EDITABLE = frozenset(
    {"name", "engine", "address", "credentials", "labels", "schedulable", "attach_mode", "probe_image"}
)
TLS_FIELDS = frozenset({"ca_cert", "client_cert", "client_key"})


class NodeNameTaken(Conflict):
    code = "node_name_taken"


class NodeInUse(Conflict):
    code = "node_in_use"


class BadAddress(Malformed):
    code = "bad_address"


class ProbingDisabled(NotPermitted):
    code = "gpu_disabled"


def register_node(fields: dict[str, Any], *, actor: Actor) -> Node:
    """Add a node and ask for its first probe.

    Raises:
        NodeNameTaken, BadAddress
    """
    fields = _checked(fields)
    try:
        with transaction.atomic():
            node = Node.objects.create(**fields)
            record(actor, "node.register", node, after=_told(fields))
            if settings.MIABI_GPU_ENABLED:
                _wake_after_commit(node)
    except IntegrityError as error:
        raise _taken(fields["name"]) from error
    return node


def update_node(node: Node, fields: dict[str, Any], *, actor: Actor) -> Node:
    """Change a node's settings; absent fields stay, the credentials too.

    Raises:
        NodeNameTaken, BadAddress
        NodeInUse: a new address while containers of ours are on the node, which would be lost sight of.
    """
    fields = _checked(fields)
    try:
        with transaction.atomic():
            locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
            before = {name: getattr(locked, name) for name in fields if getattr(locked, name) != fields[name]}
            if "address" in before and _live(locked):
                raise NodeInUse(
                    f"Node {locked.name} has {_live(locked)} live deployment(s), which a new address would lose sight "
                    "of. Drain it first.",
                    attr="address",
                )
            for name in before:
                setattr(locked, name, fields[name])
            if before:
                locked.save(update_fields=[*before, "updated_at"])
                record(
                    actor,
                    "node.update",
                    locked,
                    before=_told(before),
                    after=_told({name: fields[name] for name in before}),
                )
    except IntegrityError as error:
        raise _taken(str(fields.get("name"))) from error
    return locked


def set_schedulable(node: Node, schedulable: bool, *, actor: Actor) -> Node:
    """Cordon (false: nothing new is placed here) or uncordon; an uncordon ends a drain too."""
    with transaction.atomic():
        locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        changed = locked.schedulable != schedulable or (schedulable and locked.drain_state != Node.DrainState.NONE)
        locked.schedulable = schedulable
        if schedulable:
            locked.drain_state = Node.DrainState.NONE
        if changed:
            locked.save(update_fields=["schedulable", "drain_state", "updated_at"])
            record(actor, "node.uncordon" if schedulable else "node.cordon", locked)
    return locked


def start_drain(node: Node, *, actor: Actor) -> Node:
    """Cordon the node for good: what runs is to end, nothing comes back until an uncordon.

    A node without live deployments is drained at once; else ``finish_drain`` says so later.
    """
    with transaction.atomic():
        locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if locked.drain_state == Node.DrainState.NONE:
            live = _live(locked)
            locked.drain_state = Node.DrainState.DRAINING if live else Node.DrainState.DRAINED
            locked.schedulable = False
            locked.save(update_fields=["schedulable", "drain_state", "updated_at"])
            record(actor, "node.drain", locked, after={"drain_state": locked.drain_state, "live_deployments": live})
    return locked


def finish_drain(node_id: int) -> bool:
    """Mark a draining node as drained once nothing of ours lives there; false when something does."""
    with transaction.atomic():
        locked = Node.objects.select_for_update(no_key=True).get(pk=node_id)
        if locked.drain_state != Node.DrainState.DRAINING or _live(locked):
            return locked.drain_state == Node.DrainState.DRAINED
        locked.drain_state = Node.DrainState.DRAINED
        locked.save(update_fields=["drain_state", "updated_at"])
        record(PLATFORM, "node.drained", locked)
    return True


def remove_node(node: Node, *, actor: Actor) -> None:
    """Forget a node and its devices. Raises NodeInUse while anything refers to it."""
    try:
        with transaction.atomic():
            locked = Node.objects.select_for_update().get(pk=node.pk)
            record(actor, "node.remove", locked, before={"address": locked.address})
            locked.delete()
    except ProtectedError as error:
        raise NodeInUse(
            f"Node {node.name} is still referred to by {len(error.protected_objects)} deployment(s), lease(s) or "
            "pinned app(s). Cordon it, stop and delete those apps, then remove it."
        ) from error


def request_rescan(node: Node, *, actor: Actor) -> Node:
    """Ask for a probe soon; where one is running, that one serves. Raises ProbingDisabled."""
    if not settings.MIABI_GPU_ENABLED:
        raise ProbingDisabled(
            "GPUs are switched off on this installation, so nothing is probed. Set MIABI_GPU_ENABLED."
        )
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(probe_requested_at=timezone.now())
        record(actor, "node.rescan", node)
        _wake_after_commit(node)
    node.refresh_from_db()
    return node


def _wake_after_commit(node: Node) -> None:
    def send() -> None:
        try:
            current_app.send_task(PROBE_NODE, (node.pk,), expires=600)
        except (OperationalError, OSError) as error:
            # The next inventory round finds the node; the operator sees how old its answer is.
            log.warning("broker_unreachable", node=node.name, error=str(error))

    transaction.on_commit(send)


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(fields) - EDITABLE)
    if unknown:
        raise Malformed(f"A node has no setting called {', '.join(unknown)}.", attr=unknown[0])
    material = fields.get("credentials")
    if material is not None and not ({"ca_cert"} <= material.keys() <= TLS_FIELDS):
        raise Malformed("TLS material is ca_cert, and client_cert with client_key, as PEM texts.", attr="credentials")
    if "address" in fields:
        try:
            return fields | {"address": check_address(fields["address"])}
        except ValueError as error:
            raise BadAddress(str(error), attr="address") from error
    return fields


def _live(node: Node) -> int:
    return int(node.deployments.filter(ended_at=None).count())


def _taken(name: str) -> NodeNameTaken:
    return NodeNameTaken(f"There is a node called {name} already. Choose another name.", attr="name")


def _told(fields: dict[str, Any]) -> dict[str, object]:
    """What the audit trail may say: that credentials changed, never what they are."""
    return {name: "(set)" if name == "credentials" and value else value for name, value in fields.items()}

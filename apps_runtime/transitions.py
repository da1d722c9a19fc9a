"""Moves of a deployment's state: compare-and-set, with the event row beside it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from apps_runtime.models import Deployment, DeploymentEvent
from apps_runtime.states import COMING_UP, TERMINAL, State, sources_of


class MovedElsewhere(Exception):
    """The deployment is in no state from which the move is allowed."""


def move(
    deployment: Deployment,
    target: State,
    *,
    code: str = "",
    message: str = "",
    operator_detail: str = "",
    at: datetime | None = None,
    **changes: Any,
) -> None:
    """Move ``deployment`` to ``target`` and write its event, in the caller's transaction.

    ``changes`` are further columns set in the same UPDATE; ``at`` is when it happened, if
    not just now. The object in hand is brought up to date.

    Raises:
        MovedElsewhere: its row is in no state that may become ``target``, or it was decided
            meanwhile that it must end, and ``target`` is not on that way.
    """
    now = timezone.now()
    if target is State.RUNNING:
        changes["started_at"] = now
    if target in TERMINAL:
        changes["ended_at"] = now
    changes |= {"state": target, "attempts": 0, "retry_at": None}
    rows = Deployment.objects.filter(pk=deployment.pk, state__in=sources_of(target))
    if target in COMING_UP or target is State.RUNNING:
        rows = rows.filter(exit_to="")
    moved = rows.update(**changes)
    if not moved:
        raise MovedElsewhere(f"{deployment} cannot become {target}")
    for name, value in changes.items():
        setattr(deployment, name, value)
    note(deployment, state=target, code=code, message=message, operator_detail=operator_detail, at=at or now)


def note(
    deployment: Deployment,
    *,
    code: str = "",
    message: str = "",
    operator_detail: str = "",
    state: str = "",
    at: datetime | None = None,
) -> DeploymentEvent:
    """Add a line to the deployment's history without moving it."""
    return DeploymentEvent.objects.create(
        app_id=deployment.app_id,
        deployment=deployment,
        at=at or timezone.now(),
        state=state,
        code=code,
        message=message,
        operator_detail=storable(operator_detail),
    )


def storable(text: str) -> str:
    """What an engine or a container said, as any database keeps it: PostgreSQL's text has no NUL,
    and half a surrogate pair has no UTF-8."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def mark_ending(
    deployment: Deployment,
    exit_to: State,
    *,
    code: str = "",
    reason: str = "",
    operator_detail: str = "",
    **changes: Any,
) -> bool:
    """Decide that ``deployment`` must end as ``exit_to``; a worker brings it there.

    The first decision stands, except that a person's stop may be overtaken by nothing and
    overtakes a mere replacement. Returns whether this call decided.
    """
    undecided = ["", State.SUPERSEDED] if exit_to is State.STOPPED else [""]
    changes |= {"exit_to": exit_to, "reason_code": code, "reason": reason, "retry_at": None}
    if operator_detail:
        changes["operator_detail"] = storable(operator_detail)
    decided = Deployment.objects.live().filter(pk=deployment.pk, exit_to__in=undecided).update(**changes)
    if decided:
        for name, value in changes.items():
            setattr(deployment, name, value)
    return bool(decided)

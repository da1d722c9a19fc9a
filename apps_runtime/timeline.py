"""The states a deployment went through, with how long each lasted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps_runtime.models import Deployment


@dataclass(frozen=True, slots=True)
class Step:
    """``seconds`` None: it is in this state now, or it is its end."""

    state: str
    at: datetime
    message: str
    seconds: float | None


def timeline_of(deployment: Deployment) -> list[Step]:
    """Oldest first; one query."""
    events = list(deployment.events.exclude(state="").order_by("id"))
    steps = []
    for number, event in enumerate(events):
        following = events[number + 1] if number + 1 < len(events) else None
        seconds = (following.at - event.at).total_seconds() if following else None
        steps.append(Step(event.state, event.at, event.message, seconds))
    return steps

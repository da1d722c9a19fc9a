"""States of a deployment and the moves between them. Pure.

    queued -> placing -> [pulling ->] creating -> starting -> verifying -> running
       any of these -> stopping -> failed | stopped | superseded
    before a container can exist (queued, placing, pulling) the end is reached directly

A deployment that must end keeps its leases in ``stopping`` until its engine has
confirmed that the container is gone; ``exit_to`` says which end it is on the way to.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"
    PLACING = "placing"
    PULLING = "pulling"
    CREATING = "creating"
    STARTING = "starting"
    VERIFYING = "verifying"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    SUPERSEDED = "superseded"


TERMINAL = frozenset({State.STOPPED, State.FAILED, State.SUPERSEDED})
LIVE = frozenset(State) - TERMINAL
"""Counted against quota; may hold leases."""
WITHOUT_CONTAINER = frozenset({State.QUEUED, State.PLACING, State.PULLING})
"""No container of this deployment can exist yet."""
COMING_UP = frozenset({State.QUEUED, State.PLACING, State.PULLING, State.CREATING, State.STARTING, State.VERIFYING})

_FORWARD: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PLACING}),
    State.PLACING: frozenset({State.PULLING, State.CREATING}),
    State.PULLING: frozenset({State.CREATING}),
    State.CREATING: frozenset({State.STARTING}),
    State.STARTING: frozenset({State.VERIFYING}),
    State.VERIFYING: frozenset({State.RUNNING}),
    State.RUNNING: frozenset(),
    State.STOPPING: TERMINAL,
}


def may_move(source: State, target: State) -> bool:
    """Whether a deployment in ``source`` may become ``target``."""
    if source in TERMINAL:
        return False
    if target in _FORWARD[source]:
        return True
    if target is State.STOPPING:
        return source not in WITHOUT_CONTAINER
    return target in TERMINAL and source in WITHOUT_CONTAINER


def sources_of(target: State) -> tuple[State, ...]:
    """Every state from which ``target`` may be entered."""
    return tuple(source for source in State if may_move(source, target))

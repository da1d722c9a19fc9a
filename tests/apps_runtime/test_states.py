"""The moves a deployment may make."""

import itertools

import pytest

from apps_runtime.states import COMING_UP, LIVE, TERMINAL, WITHOUT_CONTAINER, State, may_move, sources_of


def test_the_straight_way_up_is_allowed():
    way = [
        State.QUEUED,
        State.PLACING,
        State.PULLING,
        State.CREATING,
        State.STARTING,
        State.VERIFYING,
        State.RUNNING,
    ]
    assert all(may_move(source, target) for source, target in itertools.pairwise(way))


def test_an_image_at_hand_needs_no_pull():
    assert may_move(State.PLACING, State.CREATING)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leaves_an_end(state):
    assert not any(may_move(state, target) for target in State)


@pytest.mark.parametrize("state", sorted(LIVE - WITHOUT_CONTAINER - {State.STOPPING}))
def test_what_may_have_a_container_ends_only_through_stopping(state):
    assert may_move(state, State.STOPPING)
    assert not any(may_move(state, end) for end in TERMINAL)


@pytest.mark.parametrize("state", sorted(WITHOUT_CONTAINER))
def test_what_has_no_container_ends_at_once(state):
    assert all(may_move(state, end) for end in TERMINAL)
    assert not may_move(state, State.STOPPING)


def test_no_step_is_skipped_on_the_way_up():
    assert sources_of(State.RUNNING) == (State.VERIFYING,)
    assert sources_of(State.VERIFYING) == (State.STARTING,)
    assert not may_move(State.QUEUED, State.CREATING)


def test_a_running_deployment_is_not_coming_up():
    assert State.RUNNING in LIVE
    assert State.RUNNING not in COMING_UP

"""A container counts as gone when the engine says so, and only then."""

from __future__ import annotations

import pytest

from engines.contract import ContainerSpec, EngineError, EngineTimeout, EngineUnreachable, NameTaken
from tests.engines.docker.conftest import ScriptedEngine, answer, container_missing

STILL_THERE = answer(200, {"Id": "x", "Name": "/x", "State": {"Status": "running"}})
IN_PROGRESS = answer(409, {"message": "removal of container x is already in progress"})
SPEC = ContainerSpec(name="app-1", image="app:1", labels={"miabi.app": "7"})


def test_a_removal_takes_two_calls_and_no_more(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/x/stop", answer(204))
    scripted_engine.on("DELETE /containers/x", answer(204))

    scripted_engine.engine().remove("x")

    assert scripted_engine.calls == ["GET /version", "POST /containers/x/stop", "DELETE /containers/x"]


def test_without_grace_it_is_killed_in_one_call(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("DELETE /containers/x", answer(204))

    scripted_engine.engine().remove("x", grace_s=0)

    assert scripted_engine.calls == ["GET /version", "DELETE /containers/x"]


def test_an_absent_container_is_removed(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/x/stop", container_missing())

    scripted_engine.engine().remove("x")


def test_a_404_that_is_not_the_engines_confirms_nothing(scripted_engine: ScriptedEngine) -> None:
    proxy = answer(404, {"message": "page not found"})
    for call in ("POST /containers/x/stop", "DELETE /containers/x", "GET /containers/x/json"):
        scripted_engine.on(call, proxy)

    with pytest.raises(EngineError, match="page not found"):
        scripted_engine.engine().remove("x")


def test_a_removal_in_progress_is_waited_for(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("DELETE /containers/x", IN_PROGRESS)
    scripted_engine.on("GET /containers/x/json", STILL_THERE, STILL_THERE, container_missing())

    scripted_engine.engine().remove("x", grace_s=0)

    assert scripted_engine.calls.count("GET /containers/x/json") == 3


def test_a_removal_that_stays_in_progress_is_not_confirmed(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("DELETE /containers/x", IN_PROGRESS)
    scripted_engine.on("GET /containers/x/json", STILL_THERE)

    with pytest.raises(EngineError, match="already in progress"):
        scripted_engine.engine(timeout_s=0.4).remove("x", grace_s=0)


def test_an_unkillable_container_is_not_gone(scripted_engine: ScriptedEngine) -> None:
    message = {"message": "cannot stop container: x: tried to kill container, but did not receive an exit event"}
    scripted_engine.on("POST /containers/x/stop", answer(500, message))
    scripted_engine.on("DELETE /containers/x", answer(500, message))
    scripted_engine.on("GET /containers/x/json", STILL_THERE)

    with pytest.raises(EngineError, match="did not receive an exit event"):
        scripted_engine.engine().remove("x")


def test_a_removal_without_answer_is_confirmed_by_looking(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("DELETE /containers/x", scripted_engine.hang)
    scripted_engine.on("GET /containers/x/json", container_missing())

    scripted_engine.engine(timeout_s=0.3).remove("x", grace_s=0)


def test_a_removal_without_answer_or_effect_is_a_timeout(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("DELETE /containers/x", scripted_engine.hang)
    scripted_engine.on("GET /containers/x/json", STILL_THERE)

    with pytest.raises(EngineTimeout):
        scripted_engine.engine(timeout_s=0.3).remove("x", grace_s=0)


def test_an_engine_behind_a_broken_gateway_confirms_nothing(scripted_engine: ScriptedEngine) -> None:
    for call in ("POST /containers/x/stop", "DELETE /containers/x", "GET /containers/x/json"):
        scripted_engine.on(call, answer(502, {"message": "No such container: x"}))

    with pytest.raises(EngineUnreachable):
        scripted_engine.engine().remove("x")


def test_a_name_held_by_a_container_that_is_being_removed_is_not_adopted(
    scripted_engine: ScriptedEngine,
) -> None:
    taken = {"message": 'Conflict. The container name "/app-1" is already in use by container "x".'}
    leaving = {"Id": "x", "State": {"Status": "removing"}, "Config": {"Labels": {"miabi.app": "7"}}}
    scripted_engine.on("POST /containers/create", answer(409, taken))
    scripted_engine.on("GET /containers/app-1/json", answer(200, leaving))

    with pytest.raises(EngineError, match="still being removed") as refused:
        scripted_engine.engine().create(SPEC)
    assert not isinstance(refused.value, NameTaken)

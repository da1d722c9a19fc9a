"""A one-shot leaves nothing behind."""

from __future__ import annotations

import pytest

from engines.contract import EngineTimeout, ImageUnavailable, NameTaken, OneShot
from tests.engines.docker.conftest import ScriptedEngine, answer, container_missing

JOB = OneShot(
    name="probe",
    image="cuda:1",
    command=("nvidia-smi",),
    labels={"miabi.probe": "1"},
    create_deadline_s=0.3,
    start_deadline_s=0.3,
    wait_deadline_s=0.3,
    pull_deadline_s=0.3,
)
CREATED = answer(201, {"Id": "new"})
CONFLICT = answer(409, {"message": 'Conflict. The container name "/probe" is already in use by container "old".'})
NO_IMAGE = answer(404, {"message": "No such image: cuda:1"})


def leftover(labels: dict[str, str]) -> object:
    return {"Id": "old", "Name": "/probe", "State": {"Status": "exited"}, "Config": {"Labels": labels}}


@pytest.mark.parametrize("phase", ["start", "wait"])
def test_a_step_that_hangs_is_named_and_the_container_removed(scripted_engine: ScriptedEngine, phase: str) -> None:
    scripted_engine.on("POST /containers/create", CREATED)
    scripted_engine.on("POST /containers/new/start", answer(204))
    scripted_engine.on(f"POST /containers/new/{phase}", scripted_engine.hang)
    scripted_engine.on("DELETE /containers/new", answer(204))

    with pytest.raises(EngineTimeout) as hung:
        scripted_engine.engine().run_once(JOB)

    assert hung.value.phase == phase
    assert scripted_engine.calls[-1] == "DELETE /containers/new"


def test_a_create_without_answer_is_looked_for_by_name(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", scripted_engine.hang)
    scripted_engine.on("GET /containers/probe/json", answer(200, leftover({"miabi.probe": "1"})))
    scripted_engine.on("DELETE /containers/old", answer(204))

    with pytest.raises(EngineTimeout) as hung:
        scripted_engine.engine().run_once(JOB)

    assert hung.value.phase == "create"
    assert scripted_engine.calls[-1] == "DELETE /containers/old"


def test_a_leftover_of_ours_makes_room(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", CONFLICT, NO_IMAGE)
    scripted_engine.on("GET /containers/probe/json", answer(200, leftover({"miabi.probe": "1"})))
    scripted_engine.on("DELETE /containers/old", answer(204))
    scripted_engine.on("POST /images/create", answer(404, {"message": "manifest unknown"}))

    with pytest.raises(ImageUnavailable):
        scripted_engine.engine().run_once(JOB)
    assert scripted_engine.calls.count("DELETE /containers/old") == 1


def test_a_container_that_is_not_ours_is_never_touched(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", CONFLICT)
    scripted_engine.on("GET /containers/probe/json", answer(200, leftover({"maintainer": "someone"})))

    with pytest.raises(NameTaken):
        scripted_engine.engine().run_once(JOB)
    assert not any(call.startswith("DELETE") for call in scripted_engine.calls)


def test_a_leftover_that_vanished_meanwhile_is_fine(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", CONFLICT, CREATED)
    scripted_engine.on("GET /containers/probe/json", container_missing())
    scripted_engine.on("POST /containers/new/start", scripted_engine.hang)
    scripted_engine.on("DELETE /containers/new", answer(204))

    with pytest.raises(EngineTimeout):
        scripted_engine.engine().run_once(JOB)


def test_an_image_is_pulled_only_when_it_is_missing(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", NO_IMAGE)
    scripted_engine.on("POST /images/create", answer(200, {"status": "done"}))

    with pytest.raises(ImageUnavailable):
        scripted_engine.engine().run_once(JOB)

    assert scripted_engine.calls.count("POST /images/create") == 1
    assert scripted_engine.calls.count("POST /containers/create") == 2


def test_a_pull_that_hangs_is_named(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", NO_IMAGE)
    scripted_engine.on("POST /images/create", scripted_engine.hang)

    with pytest.raises(EngineTimeout) as hung:
        scripted_engine.engine().run_once(JOB)
    assert hung.value.phase == "pull"


def test_a_failed_removal_does_not_hide_why_the_run_failed(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", CREATED)
    scripted_engine.on("POST /containers/new/start", answer(400, {"message": "unknown device"}))
    scripted_engine.on("DELETE /containers/new", answer(500, {"message": "busy"}))
    scripted_engine.on("GET /containers/new/json", answer(200, {"Id": "new"}))

    with pytest.raises(Exception, match="unknown device"):
        scripted_engine.engine().run_once(JOB)

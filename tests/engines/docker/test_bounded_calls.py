"""Every call ends in time, and says what is known."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engines.contract import (
    ContainerSpec,
    EngineAddress,
    EngineError,
    EngineTimeout,
    EngineUnreachable,
    ImageUnavailable,
)
from engines.docker import DockerEngine
from engines.docker import transport as transport_module
from tests.engines.docker.conftest import Handler, ScriptedEngine, answer

SPEC = ContainerSpec(name="app-1", image="app:1", labels={"miabi.app": "7"})


def test_a_hung_call_times_out_and_names_its_phase(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /containers/create", scripted_engine.hang)
    scripted_engine.on("POST /containers/x/start", scripted_engine.hang)
    engine = scripted_engine.engine(timeout_s=0.3)

    with pytest.raises(EngineTimeout) as creating:
        engine.create(SPEC)
    with pytest.raises(EngineTimeout) as starting:
        engine.start("x")

    assert (creating.value.phase, starting.value.phase) == ("create", "start")


def test_an_engine_that_hangs_at_the_first_handshake_times_out(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("GET /version", scripted_engine.hang)

    with pytest.raises(EngineTimeout):
        scripted_engine.engine(timeout_s=0.3).inspect("x")


def test_an_answer_that_trickles_is_cut_at_the_calls_limit(scripted_engine: ScriptedEngine) -> None:
    def trickle(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not scripted_engine.released.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    scripted_engine.on("GET /containers/x/json", trickle)

    with pytest.raises(EngineTimeout):
        scripted_engine.engine(timeout_s=0.4).inspect("x")


def test_an_endless_answer_is_not_read_into_memory(
    scripted_engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "ANSWER_LIMIT_BYTES", 1000)
    scripted_engine.on("GET /containers/x/json", answer(200, "x" * 5000))

    with pytest.raises(EngineError, match="larger than"):
        scripted_engine.engine().inspect("x")


def test_nobody_listening_is_an_unreachable_engine(tmp_path: Path) -> None:
    for url in ("tcp://127.0.0.1:1", f"unix://{tmp_path}/none.sock"):
        with pytest.raises(EngineUnreachable):
            DockerEngine(EngineAddress(url, timeout_s=2)).facts()


def test_a_connection_that_breaks_is_not_a_timeout(scripted_engine: ScriptedEngine) -> None:
    def cut(handler: Handler) -> None:
        handler.close_connection = True

    scripted_engine.on("POST /containers/x/start", cut)

    with pytest.raises(EngineUnreachable) as broken:
        scripted_engine.engine().start("x")
    assert not isinstance(broken.value, EngineTimeout)


@pytest.mark.parametrize("body", ["<html>", "[1]"])
def test_something_that_is_no_engine_is_unreachable(scripted_engine: ScriptedEngine, body: str) -> None:
    def page(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    scripted_engine.on("GET /version", page)

    with pytest.raises(EngineUnreachable):
        scripted_engine.engine().facts()


def test_a_silent_pull_calls_back_and_can_be_abandoned(
    scripted_engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Abandoned(Exception):
        pass

    def abandon(line: str) -> None:
        raise Abandoned(line)

    monkeypatch.setattr("engines.docker.images.PROGRESS_HEARTBEAT_S", 0.05)
    scripted_engine.on("POST /images/create", scripted_engine.hang)
    began = time.monotonic()

    with pytest.raises(Abandoned):
        scripted_engine.engine().pull("app:1", on_progress=abandon, deadline_s=20)

    assert time.monotonic() - began < 10


def test_an_abandoned_pull_stops_reading(scripted_engine: ScriptedEngine) -> None:
    def stalled(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        line = b'{"status":"Pulling"}\n'
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        scripted_engine.released.wait(30)

    def abandon(line: str) -> None:
        raise KeyError(line)

    scripted_engine.on("POST /images/create", stalled)
    before = set(threading.enumerate())

    with pytest.raises(KeyError) as abandoned:
        scripted_engine.engine().pull("app:1", on_progress=abandon, deadline_s=60)

    # The exception is still held, with the frames that it passed through.
    assert abandoned.value.__traceback__ is not None
    for reader in [each for each in set(threading.enumerate()) - before if each.name == "engine-stream"]:
        reader.join(5)
        assert not reader.is_alive()


def test_a_pull_ends_at_its_deadline(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("POST /images/create", scripted_engine.hang)

    with pytest.raises(EngineTimeout) as pulling:
        scripted_engine.engine().pull("app:1", deadline_s=0.3)
    assert pulling.value.phase == "pull"


def test_a_pull_that_fails_midway_fails(scripted_engine: ScriptedEngine) -> None:
    def stream(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b'{"status":"Pulling from acme/app","id":"1"}\r\n{"error":"toomanyrequests: slow down"}')
        handler.close_connection = True

    scripted_engine.on("POST /images/create", stream)
    seen: list[str] = []

    with pytest.raises(ImageUnavailable, match="toomanyrequests"):
        scripted_engine.engine().pull("app:1", on_progress=seen.append)
    assert seen == ["1 Pulling from acme/app"]


@pytest.mark.parametrize("body", [[], {}, {"Id": ""}, {"Id": None}, "text", None, 7])
def test_an_answer_that_is_not_an_engines_is_never_an_id(scripted_engine: ScriptedEngine, body: object) -> None:
    scripted_engine.on("POST /containers/create", answer(201, body))

    with pytest.raises(EngineUnreachable, match="not an engine's answer"):
        scripted_engine.engine().create(SPEC)


@pytest.mark.parametrize("body", [[], {}, {"Id": "x", "State": [1]}, {"Id": "x", "Config": "x"}, 7])
def test_a_record_that_cannot_be_read_is_an_engine_error(scripted_engine: ScriptedEngine, body: object) -> None:
    scripted_engine.on("GET /containers/x/json", answer(200, body))
    scripted_engine.on("GET /containers/json", answer(200, body if body else [7]))

    with pytest.raises(EngineUnreachable):
        scripted_engine.engine().inspect("x")
    with pytest.raises(EngineUnreachable):
        scripted_engine.engine().list_containers({"miabi.app": "7"})

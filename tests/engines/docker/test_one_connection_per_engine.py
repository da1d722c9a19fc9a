"""Connections: whom they go to, and that they are shared."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engines.contract import Engine, EngineAddress
from engines.docker import connect
from tests.engines.docker.conftest import Handler, ScriptedEngine, answer


def test_the_same_address_is_the_same_engine() -> None:
    engine: Engine = connect(EngineAddress("unix:///one.sock"))

    assert connect(EngineAddress("unix:///one.sock")) is engine
    assert connect(EngineAddress("unix:///two.sock")) is not engine
    assert connect(EngineAddress("unix:///one.sock"), attach_mode="cdi") is not engine


def test_the_version_is_negotiated_once_for_all_calls(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("GET /images/app:1/json", answer(200, {}))
    engine = scripted_engine.engine()
    engine.image_present("app:1")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: engine.image_present("app:1"), range(64)))

    assert scripted_engine.calls.count("GET /version") == 1


def test_an_engine_replaced_by_another_version_is_negotiated_with_anew(
    scripted_engine: ScriptedEngine,
) -> None:
    too_new = {"message": "client version 1.41 is too old. Minimum supported API version is 1.44"}
    scripted_engine.on("GET /images/app:1/json", answer(200, {}), answer(400, too_new), answer(200, {}))
    engine = scripted_engine.engine()
    assert engine.image_present("app:1")
    scripted_engine.api_version = "1.54"

    assert engine.image_present("app:1")
    assert scripted_engine.calls.count("GET /version") == 2


def test_a_version_refused_twice_is_told(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("GET /images/app:1/json", answer(400, {"message": "client version 1.41 is too old"}))

    with pytest.raises(Exception, match="too old"):
        scripted_engine.engine().image_present("app:1")
    assert scripted_engine.calls.count("GET /images/app:1/json") == 2


def test_a_proxy_of_the_environment_is_not_asked(
    scripted_engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    scripted_engine.on("GET /images/app:1/json", answer(200, {}))

    assert scripted_engine.engine().image_present("app:1")


def test_login_files_of_the_control_plane_are_never_lent_to_a_pull(
    scripted_engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logins = {"auths": {"registry.example.com": {"auth": "YW5uOnNlY3JldA=="}}}
    (tmp_path / "config.json").write_text(json.dumps(logins))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    scripted_engine.on("POST /images/create", answer(200, {"status": "done"}))

    scripted_engine.engine().pull("registry.example.com/acme/app:1")

    assert not any("X-Registry-Auth" in headers for headers in scripted_engine.headers)


def test_a_forked_process_makes_connections_of_its_own() -> None:
    address = EngineAddress("unix:///forked.sock")
    parents = connect(address)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"own" if connect(address) is not parents else b"shared")
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reading, 10) == b"own"
    assert connect(address) is parents
    os.close(reading)
    os.close(writing)


def test_a_closed_engine_connects_anew(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.on("GET /images/app:1/json", answer(200, {}))
    engine = scripted_engine.engine()
    engine.image_present("app:1")

    engine.close()

    assert engine.image_present("app:1")


def test_an_abandoned_stream_leaves_no_thread_behind(scripted_engine: ScriptedEngine) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        payload = b"\x01\x00\x00\x00\x00\x00\x00\x03hi\n"
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))
        scripted_engine.released.wait(30)

    scripted_engine.on("GET /containers/x/logs", endless)
    following = scripted_engine.engine().logs("x", follow=True)
    before = set(threading.enumerate())
    assert next(following) == b"hi\n"
    readers = [each for each in set(threading.enumerate()) - before if each.name == "engine-stream"]
    assert readers

    following.close()  # type: ignore[attr-defined]

    for reader in readers:
        reader.join(5)
        assert not reader.is_alive()

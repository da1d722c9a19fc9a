"""Fixtures that start a private server at its first use and stop it at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from tests.services import docker_engine as engines
from tests.services.docker_engine import DockerEngine, Toolkit
from tests.services.fleet import Fleet
from tests.services.needs import need
from tests.services.redis import RedisServer, start_redis
from tests.services.service import ServiceMissing

StartEngine = Callable[[Toolkit], str]


@pytest.fixture(scope="session")
def session_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet") / "fleet.json")


@pytest.fixture
def fleet(session_fleet: Fleet) -> Iterator[Fleet]:
    """The virtual cards of every private Docker Engine: four at the start of each test."""
    session_fleet.reset()
    yield session_fleet
    session_fleet.reset()


@pytest.fixture(scope="session")
def start_engine(session_fleet: Fleet) -> Iterator[StartEngine]:
    running: dict[Toolkit, DockerEngine] = {}

    def start(toolkit: Toolkit) -> str:
        if toolkit not in running:
            try:
                running[toolkit] = engines.start_docker_engine(toolkit, session_fleet.path)
            except ServiceMissing as missing:
                need(str(missing))
        return running[toolkit].url

    yield start
    for engine in running.values():
        engine.stop()


@pytest.fixture(scope="session")
def docker_engine(start_engine: StartEngine) -> str:
    """Address of an engine with the runtime ``nvidia`` beside the default runc."""
    return start_engine(Toolkit.INSTALLED)


@pytest.fixture(scope="session")
def docker_engine_nvidia_default(start_engine: StartEngine) -> str:
    """Address of an engine whose default runtime is ``nvidia``."""
    return start_engine(Toolkit.DEFAULT_RUNTIME)


@pytest.fixture(scope="session")
def docker_engine_without_toolkit(start_engine: StartEngine) -> str:
    """Address of an engine that knows nothing of GPUs."""
    return start_engine(Toolkit.ABSENT)


@pytest.fixture
def docker_client(docker_engine: str) -> Iterator[docker.APIClient]:
    """Plain docker-py on ``docker_engine``, to look from outside at what the product did."""
    client = docker.APIClient(docker_engine, version="auto", timeout=30)
    yield client
    client.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A private Redis server."""
    try:
        server = start_redis()
    except ServiceMissing as missing:
        need(str(missing))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser."""
    for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"):
        if Path(path).exists():
            return path
    need("no Chromium is installed (Debian package chromium)")

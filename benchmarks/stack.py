"""The product as in production: gunicorn, a Celery worker and a beat on PostgreSQL and Redis, with a real
Docker Engine that has virtual cards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import requests

from tests.services.docker_engine import Toolkit, start_docker_engine
from tests.services.fleet import Fleet
from tests.services.postgresql import start_postgresql
from tests.services.redis import start_redis
from tests.services.service import free_port

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Stack:
    """``processes``: the pids of web, worker and beat."""

    url: str
    engine: str
    fleet: Fleet
    folder: Path
    processes: dict[str, int]


@contextmanager
def services() -> Iterator[tuple[str, str, Fleet, Path]]:
    """Private servers; Django is set up on them. Yields the addresses of engine and broker, the fleet, a folder."""
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="miabi-bench-")))
        database = start_postgresql()
        running.callback(database.stop)
        broker = start_redis()
        running.callback(broker.stop)
        fleet = Fleet(folder / "fleet.json")
        engine = start_docker_engine(Toolkit.INSTALLED, fleet.path)
        running.callback(engine.stop)
        os.environ |= {
            "DATABASE_URL": database.url,
            "MIABI_BROKER_URL": broker.url,
            "MIABI_DATA_DIR": str(folder),
            "MIABI_GPU_ENABLED": "true",
            "MIABI_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "miabi.settings",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield engine.url, broker.url, fleet, folder


@contextmanager
def stack(engine: str, fleet: Fleet, folder: Path) -> Iterator[Stack]:
    """Web, worker and beat as in the Procfile, until the block ends."""
    port = free_port()
    binaries = Path(sys.executable).parent
    commands = {
        "web": f"gunicorn miabi.wsgi --bind 127.0.0.1:{port} --worker-class gthread --workers 1 --threads 16 "
        "--no-control-socket --log-level warning",
        "worker": "celery --quiet -A miabi worker --pool threads --concurrency 16 --without-gossip --without-mingle "
        "--without-heartbeat --loglevel warning",
        "beat": "celery --quiet -A miabi.beat beat --loglevel warning --pidfile=",
    }
    running = {
        name: subprocess.Popen([str(binaries / command.split()[0]), *command.split()[1:]], cwd=ROOT)
        for name, command in commands.items()
    }
    url = f"http://127.0.0.1:{port}"
    try:
        _await(url)
        yield Stack(url, engine, fleet, folder, {name: process.pid for name, process in running.items()})
    finally:
        for process in running.values():
            process.terminate()
        for name, process in running.items():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                print(f"{name} did not stop in 20 s and was killed")


def _await(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if requests.get(f"{url}/healthz", timeout=1).status_code == 200:
                return
        except requests.RequestException:
            time.sleep(0.1)
    raise RuntimeError("the web server did not come up")


def memory_mib(pids: dict[str, int], what: str = "Pss") -> dict[str, float]:
    """Memory of each process with its children, in MiB: ``Pss`` (shared pages divided) or ``Rss``."""
    return {name: sum(_kib(each, what) for each in _family(pid)) / 1024 for name, pid in pids.items()}


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def _kib(pid: int, what: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no {what}")

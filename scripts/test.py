"""``make test``: the whole suite on PostgreSQL and Redis, then on SQLite what depends on the database.

Arguments go to pytest, for both runs: ``make test ARGS="tests/gpus -x"``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

from scripts.installation import ROOT
from tests.services.needs import in_ci
from tests.services.postgresql import start_postgresql
from tests.services.redis import start_redis
from tests.services.service import ServiceMissing

NOTHING_COLLECTED = 5
SETTLE_SECONDS = 60


@dataclass
class Outcome:
    name: str
    status: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    def __str__(self) -> str:
        words = "passed" if self.ok else f"FAILED (pytest status {self.status})"
        return f"{self.name:<28} {words} in {self.seconds:.0f} s"


def main() -> int:
    signal.signal(signal.SIGTERM, interrupted)
    arguments = sys.argv[1:]
    try:
        outcomes = list(runs(arguments))
    except ServiceMissing as missing:
        print(f"Cannot run the tests as a build server must: {missing}.")
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the servers are stopped.")
        return 130
    print()
    for outcome in outcomes:
        print(outcome)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def runs(arguments: list[str]) -> Iterator[Outcome]:
    with servers() as environment:
        if "DATABASE_URL" not in environment:
            yield pytest("whole suite on SQLite", ["-m", "not postgres"], arguments, environment)
            return
        yield pytest("whole suite on PostgreSQL", ["-m", "not sqlite"], arguments, environment)
    on_sqlite = pytest("database tests on SQLite", ["-m", "sqlite or both_databases"], arguments, {})
    # The tests asked for may have none that depend on the database; the whole suite has.
    if on_sqlite.status == NOTHING_COLLECTED and arguments:
        return
    yield on_sqlite


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Private PostgreSQL and Redis, as environment variables; without them outside CI, nothing.

    Raises:
        ServiceMissing: under CI, when one is not installed.
    """
    environment = {}
    with ExitStack() as running:
        try:
            database = start_postgresql()
            running.callback(database.stop)
            broker = start_redis()
            running.callback(broker.stop)
            environment = {"DATABASE_URL": database.url, "MIABI_BROKER_URL": broker.url}
        except ServiceMissing as missing:
            if in_ci():
                raise
            print(f"{missing}: the tests run on SQLite alone.")
        yield environment


def pytest(name: str, selection: list[str], arguments: list[str], extra: dict[str, str]) -> Outcome:
    """One run of pytest with a worker for each core, and the servers of ``extra`` only."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "MIABI_BROKER_URL")
    }
    workers = ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *selection, *workers, *arguments]
    began = time.monotonic()
    # A session of its own: it hears of Ctrl-C from here, once, and not from the terminal too.
    process = subprocess.Popen(command, cwd=ROOT, env=environment | extra, start_new_session=True)
    try:
        status = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SETTLE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    return Outcome(name, status, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())

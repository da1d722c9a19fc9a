"""One private server, from the side of the tests: start it, know that it is ready, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")


class ServiceMissing(Exception):
    """This machine lacks what the server needs; the text says what."""


class ServiceFailed(Exception):
    """The server is there and did not come up; the text holds the end of its log."""


@dataclass
class ServerProcess:
    """One process of a service, as ``keeper`` runs it."""

    argv: Sequence[str]
    log: str
    env: dict[str, str] | None = None
    user: str = ""
    stop_signal: int = 15
    before_stop: Sequence[str] | None = None
    ready_path: str | None = None


@dataclass
class Service:
    """Processes that run until ``stop``, or until the process that started them is gone."""

    processes: Sequence[ServerProcess]
    folder: Path
    """The service's own folder; removed at the end."""
    at_the_end: Sequence[Sequence[str]] = ()
    """Commands to run once the processes are gone."""
    _keeper: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, answers: Callable[[], bool], *, within_s: float = 45.0) -> None:
        """Start, and return when ``answers`` is true.

        Raises:
            ServiceFailed: it ended, or did not answer in time.
        """
        plan = {
            "processes": [asdict(each) for each in self.processes],
            "remove": [str(self.folder)],
            "finally": self.at_the_end,
        }
        self._keeper = subprocess.Popen([sys.executable, str(KEEPER)], stdin=subprocess.PIPE, start_new_session=True)
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(json.dumps(plan).encode() + b"\n")
        self._keeper.stdin.flush()
        deadline = time.monotonic() + within_s
        while not answers():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                raise ServiceFailed(self._failure())
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the processes and remove the folder. Stopping twice is fine."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait(60)

    def _failure(self) -> str:
        logs = "\n".join(tail(Path(each.log)) for each in self.processes)
        self.stop()
        return f"{Path(self.processes[-1].argv[0]).name} did not come up:\n{logs}"


def tail(path: Path, lines: int = 15) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    return ""


def private_folder(name: str) -> Path:
    """A new folder with a short path: a Unix socket's address holds 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix=f"miabi-{name}-", dir="/tmp"))
    folder.chmod(0o755)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_program(name: str, *, package: str) -> str:
    """Its path.

    Raises:
        ServiceMissing: it is not installed.
    """
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")
    if path is None:
        raise ServiceMissing(f"{name} is not installed (Debian package {package})")
    return path

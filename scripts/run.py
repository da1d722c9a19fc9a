"""``make run``: web, worker, beat and, where there is one, the virtual node; until Ctrl-C.

All stop together: when asked to, and when one of them ends by itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path
from typing import IO

from honcho.environ import parse_procfile
from honcho.manager import Manager

from scripts import installation

DEFAULT_PORT = 8000
PORTS_TO_TRY = 100
READY_SECONDS = 90
STARTING_SECONDS = 0.1


class Supervisor(Manager):  # type: ignore[misc]
    """honcho's manager, which also knows who ended first."""

    fallen: str | None = None

    def terminate(self) -> None:
        if not self._all_started():
            # Asked to stop while starting: a process without a known id cannot be told yet.
            signal.signal(signal.SIGALRM, lambda number, frame: self.terminate())
            signal.setitimer(signal.ITIMER_REAL, STARTING_SECONDS)
            return
        if not self._terminating:
            ended = (name for name, process in self._processes.items() if "returncode" in process)
            self.fallen = next(ended, None)
        super().terminate()


def main() -> int:
    # Both ways of asking end the preparation; the supervisor takes them over after it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    installation.load_environment()
    folder = installation.data_folder()
    with open(folder / "run.lock", "w") as lock:
        if not take(lock):
            where = installation.running_address(folder) or "an address that does not answer yet"
            print(f"Miabi runs from {folder} already, at {where}. Stop it first, or set MIABI_DATA_DIR.")
            return 1
        try:
            return supervise(folder)
        except KeyboardInterrupt:
            return 0
        finally:
            installation.forget_address(folder)


def take(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def supervise(folder: Path) -> int:
    """Prepare the database, run every process, and say why it ended. Returns the exit status."""
    host = os.environ.get("MIABI_BIND", "127.0.0.1")
    port = choose_port(host)
    os.environ["MIABI_LISTEN"] = f"{host}:{port}"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ["PYTHONUNBUFFERED"] = "1"
    # Root may run this, as in a container; Celery would say each time that it had better not.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:You're running the worker with superuser")
    (folder / "static").mkdir(exist_ok=True)
    nodes = prepare(folder)
    if nodes is None:
        print("The database could not be prepared; nothing was started.")
        return 1

    supervisor = Supervisor()
    for name, command in parse_procfile((installation.ROOT / "Procfile").read_text()).processes.items():
        supervisor.add_process(name, command, cwd=str(installation.ROOT))
    if nodes:
        supervisor.add_process("virtual", virtual_node(nodes), cwd=str(installation.ROOT))
    url = f"http://127.0.0.1:{port}"
    announcer = Process(target=announce, args=(folder, url), daemon=True)
    announcer.start()
    supervisor.loop()
    announcer.terminate()
    if supervisor.fallen is None:
        print("Stopped.")
        return 0
    print(f"The process {supervisor.fallen} ended by itself (see above), so the others were stopped too.")
    return 1


def choose_port(host: str) -> int:
    """The port asked for, or else the next free one, which is then said."""
    wanted = int(os.environ.get("MIABI_PORT", DEFAULT_PORT))
    for port in range(wanted, wanted + PORTS_TO_TRY):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
        if port != wanted:
            print(f"Port {wanted} is taken; using {port}. MIABI_PORT chooses another.")
        return port
    raise SystemExit(f"No port from {wanted} to {wanted + PORTS_TO_TRY - 1} is free. Set MIABI_PORT.")


def prepare(folder: Path) -> list[str] | None:
    """Addresses of the installation's virtual nodes; None when the database is not ready."""
    report = folder / "nodes.json"
    address = f"unix://{installation.virtual_socket(folder)}"
    command = [sys.executable, "-m", "scripts.prepare", address, str(report)]
    # A session of its own: on Ctrl-C it is ended from here, without its own traceback.
    with subprocess.Popen(command, cwd=installation.ROOT, start_new_session=True) as preparing:
        try:
            status = preparing.wait()
        except KeyboardInterrupt:
            preparing.terminate()
            raise
    if status:
        return None
    addresses: list[str] = json.loads(report.read_text())
    report.unlink()
    return [each for each in addresses if each == address]


def virtual_node(addresses: list[str]) -> str:
    state = shlex.quote(str(installation.data_folder() / "virtual.json"))
    return f"exec python -m engines.virtual --listen {shlex.quote(addresses[0])} --state {state}"


def announce(folder: Path, url: str) -> None:
    """Say where Miabi is once it answers. The supervisor ends this process with the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    deadline = time.monotonic() + READY_SECONDS
    while not installation.answers(url):
        if time.monotonic() > deadline:
            print(f"\n  Miabi does not answer at {url} yet; the lines above say more.\n", flush=True)
            return
        time.sleep(0.2)
    installation.write_address(folder, url)
    print(f"\n  Miabi answers at {url}  (console: {url}/admin/). Ctrl-C stops it.\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())

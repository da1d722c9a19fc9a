"""Keeps server processes alive for exactly as long as somebody holds its standard input open.

The tests may end in any way: finished, interrupted, timed out, killed. Whatever the way, the
kernel closes the pipe, and this process then stops its servers in reverse order and clears
away what they left. It imports nothing of the project.

The first line of standard input is the plan, as JSON: ``{"processes": [...], "remove": [folders],
"finally": [commands]}``. A process has ``argv``, ``env``, ``log``, and may have ``user`` (a name to
run as), ``stop_signal`` (default SIGTERM), ``before_stop`` (a command) and ``ready_path`` (a file that
must appear before the next process is started).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STOP_SECONDS = 15
READY_SECONDS = 30


def main() -> int:
    # Ctrl-C reaches the whole terminal; the tests decide when their servers go.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pipe = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    plan = json.loads(pipe.readline())
    running: list[tuple[dict[str, Any], subprocess.Popen[bytes]]] = []
    try:
        for each in plan["processes"]:
            running.append((each, start(each)))
            wait_for_path(each.get("ready_path"), running)
        while all(process.poll() is None for _, process in running):
            if select.select([pipe], [], [], 0.5)[0]:
                return 0
        return 1
    finally:
        for each, process in reversed(running):
            stop(each, process)
        for command in plan.get("finally", []):
            subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        for folder in plan.get("remove", []):
            clear(folder)


def start(each: dict[str, Any]) -> subprocess.Popen[bytes]:
    user = {"user": each["user"], "group": each["user"], "extra_groups": []} if each.get("user") else {}
    with open(each["log"], "ab") as log:
        return subprocess.Popen(
            each["argv"],
            env=each.get("env"),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=default_signals,
            **user,
        )


def default_signals() -> None:
    """An ignored signal stays ignored over exec; the servers are stopped by these."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for_path(path: str | None, running: list[tuple[dict[str, Any], subprocess.Popen[bytes]]]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while path and not os.path.exists(path):
        if time.monotonic() > deadline or any(process.poll() is not None for _, process in running):
            return
        time.sleep(0.02)


def stop(each: dict[str, Any], process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None and each.get("before_stop"):
        try:
            subprocess.run(each["before_stop"], timeout=STOP_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{each['before_stop']} did not end in time", file=sys.stderr)
    if process.poll() is None:
        process.send_signal(each.get("stop_signal", signal.SIGTERM))
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def clear(folder: str) -> None:
    """Remove ``folder`` with everything mounted below it."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(folder + "/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

"""``make demo``: play the main job on the Miabi that runs, or on one started for the play."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from scripts import installation

START_SECONDS = 120


def main() -> int:
    installation.load_environment()
    url = installation.running_address(installation.data_folder())
    if url is not None:
        return play(url)
    print("Miabi does not run here; starting it for the play.", flush=True)
    running = subprocess.Popen([sys.executable, "-m", "scripts.run"], cwd=installation.ROOT, start_new_session=True)
    try:
        url = wait_for_address(running)
        return 1 if url is None else play(url)
    except KeyboardInterrupt:
        return 130
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


def wait_for_address(running: subprocess.Popen[bytes]) -> str | None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        if url := installation.running_address(installation.data_folder()):
            return url
        time.sleep(0.3)
    return None


def play(url: str) -> int:
    command = [sys.executable, "manage.py", "demo", "--url", url]
    return subprocess.run(command, cwd=installation.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

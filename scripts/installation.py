"""What is known of the one Miabi that runs from this checkout: its folder, its address."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import urllib.request
from contextlib import suppress
from pathlib import Path

import environ

ROOT = Path(__file__).resolve().parent.parent
SOCKET_PATH_LIMIT = 100
"""A Unix socket's address holds 107 bytes on Linux, 103 elsewhere."""

# Straight to this machine, whatever proxy the environment names.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def load_environment() -> None:
    """Read ``.env`` as the settings do, and fill in what suits a run from a checkout."""
    environ.Env.read_env(str(ROOT / ".env"))
    os.environ.setdefault("MIABI_DATA_DIR", str(ROOT / "var"))
    # Of no use without: the first start is for looking at GPUs. Production says it itself.
    os.environ.setdefault("MIABI_GPU_ENABLED", "true")


def data_folder() -> Path:
    folder = Path(os.environ["MIABI_DATA_DIR"]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def virtual_socket(folder: Path) -> Path:
    """Where the virtual node listens; in the data folder unless that makes the path too long."""
    socket = folder / "virtual.sock"
    if len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"miabi-{os.getuid()}-{digest}.sock")


def answers(url: str, timeout_s: float = 2.0) -> bool:
    """Whether the web server at ``url`` says that it is healthy."""
    try:
        with _direct.open(f"{url}/healthz", timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def write_address(folder: Path, url: str) -> None:
    (folder / "run.json").write_text(json.dumps({"url": url}))


def forget_address(folder: Path) -> None:
    (folder / "run.json").unlink(missing_ok=True)


def running_address(folder: Path) -> str | None:
    """Where ``make run`` of this checkout answers, if it does."""
    with suppress(OSError, ValueError, KeyError):
        url = str(json.loads((folder / "run.json").read_text())["url"])
        return url if answers(url) else None
    return None

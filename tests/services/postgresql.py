"""A private PostgreSQL server: its own data folder, a free port, no regard for power cuts."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.services.service import (
    ServerProcess,
    Service,
    ServiceFailed,
    ServiceMissing,
    find_program,
    free_port,
    private_folder,
)

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "autovacuum": "on",
}


@dataclass
class PostgreSQL:
    service: Service
    url: str
    """For ``DATABASE_URL``: an empty database called ``miabi``."""

    def stop(self) -> None:
        self.service.stop()


def start_postgresql() -> PostgreSQL:
    """Raises ServiceMissing or ServiceFailed."""
    programs = server_programs()
    user = server_user()
    folder, port = private_folder("pg"), free_port()
    if user:
        shutil.chown(folder, user, user)
    initdb = [str(programs / "initdb"), "-D", f"{folder}/data", "-U", "miabi", "-A", "trust"]
    made = subprocess.run(
        [*initdb, "-E", "UTF8", "--locale=C", "--no-sync"],
        user=user or None,
        group=user or None,
        extra_groups=[] if user else None,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise ServiceFailed(f"initdb: {made.stderr.strip()}")
    options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
    process = ServerProcess(
        argv=[
            str(programs / "postgres"),
            "-D",
            f"{folder}/data",
            "-k",
            str(folder),
            "-p",
            str(port),
            *options,
        ],
        log=f"{folder}/log",
        user=user,
        # The fast way to stop: do not wait for clients to leave.
        stop_signal=signal.SIGINT,
    )
    service = Service([process], folder)
    service.start(lambda: answers(port))
    with psycopg.connect(host="127.0.0.1", port=port, user="miabi", dbname="postgres", autocommit=True) as database:
        database.execute("CREATE DATABASE miabi")
    return PostgreSQL(service, f"postgres://miabi@127.0.0.1:{port}/miabi")


def answers(port: int) -> bool:
    try:
        psycopg.connect(host="127.0.0.1", port=port, user="miabi", dbname="postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def server_programs() -> Path:
    """The folder of initdb and postgres; Debian keeps it off the PATH."""
    versioned = Path("/usr/lib/postgresql")
    found = [path.parent for path in versioned.glob("*/bin/postgres") if (path.parent / "initdb").exists()]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    return Path(find_program("initdb", package="postgresql")).parent


def server_user() -> str:
    """Whom to run as: the server refuses to run as root."""
    if os.geteuid() != 0:
        return ""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError as missing:
        raise ServiceMissing("there is no user postgres to run the server as") from missing

"""A container's state, and the engine's records of it."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field
from typing import Any

from engines.virtual.gpu_attachment import Attachment
from engines.virtual.images import image_id
from engines.virtual.output import Output

ZERO_TIME = "0001-01-01T00:00:00Z"
KILLED = 137
NANOSECONDS = 1_000_000_000

Mount = dict[str, Any]


@dataclass(slots=True)
class Container:
    """``config`` is the body of the create call; ``env`` includes the image's."""

    id: str
    name: str
    config: dict[str, Any]
    created: str
    env: dict[str, str] = field(default_factory=dict)
    image_name: str = ""
    mounts: list[Mount] = field(default_factory=list)
    status: str = "created"
    exit_code: int = 0
    oom_killed: bool = False
    error: str = ""
    started_at: str = ZERO_TIME
    finished_at: str = ZERO_TIME
    restart_count: int = 0
    stopped_by_hand: bool = False
    health: str = ""
    failing_streak: int = 0
    ports: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    attachment: Attachment = field(default_factory=Attachment)
    output: Output = field(default_factory=Output)
    exec_ids: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def host_config(self) -> dict[str, Any]:
        return self.config.get("HostConfig") or {}

    @property
    def labels(self) -> dict[str, str]:
        return self.config.get("Labels") or {}

    @property
    def argv(self) -> list[str]:
        """The entrypoint and the command in one."""
        parts: list[str] = []
        for key in ("Entrypoint", "Cmd"):
            value = self.config.get(key) or []
            parts += [value] if isinstance(value, str) else [str(word) for word in value]
        return [word for word in parts if word]

    @property
    def terminal(self) -> bool:
        return bool(self.config.get("Tty"))

    @property
    def restart_policy(self) -> tuple[str, int]:
        """Its name and the maximum of retries (0: no maximum)."""
        policy = self.host_config.get("RestartPolicy") or {}
        return policy.get("Name") or "no", policy.get("MaximumRetryCount") or 0

    def notify(self) -> None:
        """Wake whoever follows the output or waits for the end."""
        self.changed.set()
        self.changed = asyncio.Event()

    def cancel_tasks(self) -> None:
        """End what runs for it, except the task that calls."""
        try:
            current = asyncio.current_task()
        except RuntimeError:
            current = None
        for task in self.tasks:
            if task is not current:
                task.cancel()
        self.tasks.clear()


@dataclass(slots=True)
class Exec:
    """A command to be run in a container."""

    id: str
    container: Container
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    terminal: bool = False
    stdout: bool = True
    stderr: bool = True
    exit_code: int | None = None
    running: bool = False
    started: bool = False


def inspect_record(container: Container, devices_shown: list[str] | None = None) -> dict[str, Any]:
    """The answer of ``GET /containers/{id}/json``. ``devices_shown`` is a lie about the devices."""
    config: dict[str, Any] = {"Tty": False, "Cmd": None, "Entrypoint": None, "Labels": {}, "Volumes": None, "User": ""}
    config |= {key: each for key, each in container.config.items() if key not in ("HostConfig", "NetworkingConfig")}
    config |= {"Env": [f"{key}={value}" for key, value in container.env.items()], "Hostname": container.id[:12]}
    host: dict[str, Any] = {
        "Binds": None,
        "LogConfig": {"Type": "json-file", "Config": {}},
        "NetworkMode": "bridge",
        "PortBindings": {},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "CapAdd": None,
        "CapDrop": None,
        "Privileged": False,
        "SecurityOpt": None,
        "Runtime": "runc",
        "Memory": 0,
        "NanoCpus": 0,
        "DeviceRequests": None,
        "PidsLimit": None,
    }
    host |= {key: value for key, value in container.host_config.items() if value is not None}
    if devices_shown is not None:
        host["DeviceRequests"] = [
            {"Driver": "nvidia", "Count": 0, "DeviceIDs": devices_shown, "Capabilities": [["gpu"]], "Options": {}}
        ]
    argv = container.argv
    return {
        "Id": container.id,
        "Created": container.created,
        "Path": argv[0] if argv else "",
        "Args": argv[1:],
        "State": _state(container),
        "Image": image_id(container.image_name),
        "Name": f"/{container.name}",
        "RestartCount": container.restart_count,
        "Driver": "overlay2",
        "Platform": "linux",
        "ExecIDs": container.exec_ids or None,
        "HostConfig": host,
        "Mounts": container.mounts,
        "Config": config,
        "NetworkSettings": {"Ports": container.ports, "Networks": {}},
    }


def _state(container: Container) -> dict[str, Any]:
    state = {
        "Status": container.status,
        "Running": container.status in ("running", "restarting"),
        "Paused": False,
        "Restarting": container.status == "restarting",
        "OOMKilled": container.oom_killed,
        "Dead": False,
        "Pid": 1 + int(container.id[:4], 16) if container.running else 0,
        "ExitCode": container.exit_code,
        "Error": container.error,
        "StartedAt": container.started_at,
        "FinishedAt": container.finished_at,
    }
    if container.health:
        state["Health"] = {"Status": container.health, "FailingStreak": container.failing_streak, "Log": []}
    return state


def list_record(container: Container, created_at: int) -> dict[str, Any]:
    """One entry of ``GET /containers/json``."""
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": container.config.get("Image", ""),
        "ImageID": image_id(container.image_name),
        "Command": shlex.join(container.argv),
        "Created": created_at,
        "Ports": [
            {
                "IP": binding["HostIp"],
                "PrivatePort": int(port.partition("/")[0]),
                "PublicPort": int(binding["HostPort"]),
                "Type": port.partition("/")[2] or "tcp",
            }
            for port, bindings in container.ports.items()
            for binding in bindings
        ],
        "Labels": container.labels,
        "State": container.status,
        "Status": _sentence(container),
        "HostConfig": {"NetworkMode": container.host_config.get("NetworkMode") or "bridge"},
        "NetworkSettings": {"Networks": {}},
        "Mounts": container.mounts,
    }


def _sentence(container: Container) -> str:
    match container.status:
        case "created":
            return "Created"
        case "running":
            health = {"starting": " (health: starting)", "": ""}.get(container.health, f" ({container.health})")
            return f"Up Less than a second{health}"
        case "restarting":
            return f"Restarting ({container.exit_code}) Less than a second ago"
        case "removing":
            return "Removal In Progress"
        case _:
            return f"Exited ({container.exit_code}) Less than a second ago"

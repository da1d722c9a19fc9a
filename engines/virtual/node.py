"""The state of one virtual node and the rules dockerd holds its callers to."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from engines.virtual.cards import Card, listing, make_cards, query_xml, visible
from engines.virtual.faults import Faults
from engines.virtual.programs import FOREVER, Program

UTC = UTC
ZERO_TIME = "0001-01-01T00:00:00Z"
NAME = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]+\Z")
KILLED = 137
TERMINATED = 143


class ApiError(Exception):
    """An answer with an error status and dockerd's ``{"message"}``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class Container:
    id: str
    name: str
    config: dict[str, Any]
    created: str
    status: str = "created"
    exit_code: int = 0
    oom_killed: bool = False
    error: str = ""
    started_at: str = ZERO_TIME
    finished_at: str = ZERO_TIME
    output: list[tuple[float, bytes]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.status == "running"

    def notify(self) -> None:
        """Wake whoever follows the output or waits for the end."""
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass(slots=True)
class Exec:
    id: str
    container: Container
    command: list[str]
    exit_code: int | None = None
    running: bool = False


@dataclass(slots=True)
class VirtualNode:
    """One simulated host. Its attributes may be changed while it serves."""

    name: str = "virtual"
    cards: list[Card] = field(default_factory=list)
    toolkit: bool = True
    default_runtime: str = "runc"
    driver_failure: str = ""
    """What the toolkit says instead of attaching, e.g. ``nvml error: driver/library version mismatch``."""
    smi_hangs: bool = False
    any_image: bool = True
    """Any well-formed image can be pulled; else only those in ``images``."""
    pull_seconds: float = 0.2
    operating_system: str = "Miabi virtual node"
    kernel_version: str = "6.1.0-virtual"
    security_options: list[str] = field(default_factory=lambda: ["name=seccomp,profile=builtin"])
    api_version: str = "1.47"
    clock_skew_s: float = 0.0
    images: set[str] = field(default_factory=set)
    containers: dict[str, Container] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    execs: dict[str, Exec] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    on_change: Callable[[], None] | None = None

    @classmethod
    def with_cards(cls, name: str, count: int, **fields: Any) -> VirtualNode:
        return cls(name=name, cards=make_cards(name, count), **fields)

    # --- Reading -------------------------------------------------------------------------
    def version(self) -> dict[str, Any]:
        return {
            "Version": "28.0.0-virtual",
            "ApiVersion": self.api_version,
            "MinAPIVersion": "1.24",
            "Os": "linux",
            "Arch": "amd64",
            "KernelVersion": self.kernel_version,
        }

    def info(self) -> dict[str, Any]:
        runtimes: dict[str, Any] = {"runc": {"path": "runc"}}
        if self.toolkit:
            runtimes["nvidia"] = {"path": "nvidia-container-runtime"}
        return {
            "ID": str(hashlib.sha256(self.name.encode()).hexdigest()[:36]),
            "Name": self.name,
            "ServerVersion": "28.0.0-virtual",
            "OperatingSystem": self.operating_system,
            "KernelVersion": self.kernel_version,
            "Architecture": "x86_64",
            "Runtimes": runtimes,
            "DefaultRuntime": self.default_runtime,
            "SecurityOptions": self.security_options,
            "CDISpecDirs": [],
            "NCPU": 16,
            "MemTotal": 64 * 2**30,
            "SystemTime": now(timedelta(seconds=self.clock_skew_s)),
            "Containers": len(self.containers),
            "ContainersRunning": sum(container.running for container in self.containers.values()),
        }

    def image(self, name: str) -> dict[str, Any]:
        if _tagged(name) not in self.images:
            raise ApiError(404, f"No such image: {name}")
        return {"Id": "sha256:" + hashlib.sha256(name.encode()).hexdigest(), "RepoTags": [_tagged(name)]}

    def find(self, key: str) -> Container:
        for container in self.containers.values():
            if key in (container.id, container.name) or (len(key) >= 12 and container.id.startswith(key)):
                return container
        raise ApiError(404, f"No such container: {key}")

    def listed(self, *, every: bool, filters: dict[str, Any]) -> list[dict[str, Any]]:
        labels = _filter_values(filters, "label")
        names = _filter_values(filters, "name")
        found = []
        for container in self.containers.values():
            own = container.config.get("Labels") or {}
            if not (every or container.running):
                continue
            if all(_has_label(own, wanted) for wanted in labels) and (
                not names or any(name.lstrip("/") in container.name for name in names)
            ):
                found.append(
                    {
                        "Id": container.id,
                        "Names": [f"/{container.name}"],
                        "Image": container.config.get("Image", ""),
                        "Labels": own,
                        "State": container.status,
                        "Status": container.status,
                        "Created": 0,
                        "Ports": [],
                    }
                )
        return found

    def inspected(self, container: Container) -> dict[str, Any]:
        config = {
            key: value for key, value in container.config.items() if key not in ("HostConfig", "NetworkingConfig")
        }
        host = dict(container.config.get("HostConfig") or {})
        if self.faults.record_shows is not None:
            host["DeviceRequests"] = [{"Driver": "nvidia", "DeviceIDs": self.faults.record_shows, "Count": 0}]
        return {
            "Id": container.id,
            "Name": f"/{container.name}",
            "Created": container.created,
            "Image": "sha256:" + hashlib.sha256(str(config.get("Image")).encode()).hexdigest(),
            "State": {
                "Status": container.status,
                "Running": container.running,
                "Paused": False,
                "Restarting": False,
                "OOMKilled": container.oom_killed,
                "Dead": False,
                "Pid": 4242 if container.running else 0,
                "ExitCode": container.exit_code,
                "Error": container.error,
                "StartedAt": container.started_at,
                "FinishedAt": container.finished_at,
            },
            "Config": config,
            "HostConfig": host,
            "NetworkSettings": {"Ports": self._ports(container)},
            "RestartCount": 0,
        }

    def _ports(self, container: Container) -> dict[str, Any]:
        if not container.running:
            return {}
        bindings = (container.config.get("HostConfig") or {}).get("PortBindings") or {}
        first = 32768 + int(container.id[:6], 16) % 20000
        return {
            port: [{"HostIp": "0.0.0.0", "HostPort": str(first + number)}]  # noqa: S104 - as dockerd reports it
            for number, port in enumerate(bindings)
        }

    # --- Changing ------------------------------------------------------------------------
    def create(self, name: str, config: dict[str, Any]) -> Container:
        if name and not NAME.match(name):
            raise ApiError(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
        image = str(config.get("Image") or "")
        if not image:
            raise ApiError(400, "No image was specified")
        if _tagged(image) not in self.images:
            raise ApiError(404, f"No such image: {image}")
        for request in self._requests(config):
            if request.get("Count") and request.get("DeviceIDs"):
                raise ApiError(400, "cannot set both Count and DeviceIDs on device request")
        name = (name or f"virtual_{secrets.token_hex(4)}").lstrip("/")
        for other in self.containers.values():
            if other.name == name:
                raise ApiError(
                    409,
                    f'Conflict. The container name "/{name}" is already in use by container "{other.id}". You have to '
                    "remove (or rename) that container to be able to reuse that name.",
                )
        for bind in (config.get("HostConfig") or {}).get("Mounts") or []:
            self.create_volume(str(bind.get("Source")), {})
        container = Container(secrets.token_hex(32), name, config, now())
        self.containers[container.id] = container
        self._changed()
        return container

    def start(self, container: Container) -> bool:
        """False when it runs already."""
        if container.running:
            return False
        cards = self._attach(container)
        container.status, container.started_at, container.finished_at = "running", now(), ZERO_TIME
        container.exit_code, container.error = 0, ""
        container.task = asyncio.get_running_loop().create_task(self._live(container, cards))
        self._changed()
        return True

    async def _live(self, container: Container, cards: list[Card] | None) -> None:
        program = self.program(container, _argv(container.config), cards)
        try:
            for step in program.run():
                if isinstance(step, bytes):
                    container.output.append((datetime.now(UTC).timestamp(), step))
                    container.notify()
                elif step == FOREVER:
                    await asyncio.Event().wait()
                else:
                    await asyncio.sleep(step)
        except asyncio.CancelledError:
            return
        self.ended(container, program.exit_code)

    def program(self, container: Container, argv: Sequence[str], cards: list[Card] | None) -> Program:
        env = dict(pair.partition("=")[::2] for pair in container.config.get("Env") or [])
        return Program(argv, env, None if cards is None else self._smi(cards))

    def _smi(self, cards: list[Card]) -> Callable[[Sequence[str]], tuple[str, int]]:
        def answer(arguments: Sequence[str]) -> tuple[str, int]:
            shown = cards
            if self.faults.inside_shows is not None:
                shown = visible(self.cards, self.faults.inside_shows)
            if "-L" in arguments:
                return listing(shown), 0
            return query_xml(shown), 0

        return answer

    def cards_of(self, container: Container) -> list[Card] | None:
        """What the container sees; None where the driver put nothing in."""
        ids: list[str] = []
        for request in self._requests(container.config):
            ids += ["all"] if request.get("Count") == -1 else list(request.get("DeviceIDs") or [])
        env = dict(pair.partition("=")[::2] for pair in container.config.get("Env") or [])
        if not ids and self.default_runtime == "nvidia" and self.toolkit:
            value = env.get("NVIDIA_VISIBLE_DEVICES", "void")
            ids = [] if value in ("", "void", "none") else value.split(",")
        return visible(self.cards, ids) if ids else None

    def _attach(self, container: Container) -> list[Card] | None:
        """The cards, or the toolkit's own error."""
        for request in self._requests(container.config):
            capabilities = [word for group in request.get("Capabilities") or [] for word in group]
            if not self.toolkit or "gpu" not in capabilities:
                driver = request.get("Driver") or ""
                raise ApiError(
                    500, f'could not select device driver "{driver}" with capabilities: [[{" ".join(capabilities)}]]'
                )
            if self.driver_failure:
                raise ApiError(500, _hook_failed(self.driver_failure))
            known = {each for card in self.cards for each in [card.uuid, *card.ids]}
            for wanted in request.get("DeviceIDs") or []:
                if wanted not in known:
                    raise ApiError(500, _hook_failed(f"device error: {wanted}: unknown device"))
        return self.cards_of(container)

    def ended(self, container: Container, exit_code: int, *, oom: bool = False) -> None:
        container.status, container.exit_code, container.oom_killed = "exited", exit_code, oom
        container.finished_at = now()
        container.notify()
        self._changed()

    def kill(self, container: Container, exit_code: int = KILLED, *, oom: bool = False) -> None:
        """End the process now, as by a signal or for want of memory."""
        if not container.running:
            return
        if container.task is not None:
            container.task.cancel()
        self.ended(container, exit_code, oom=oom)

    def remove(self, container: Container, *, force: bool) -> None:
        if container.running and not force:
            raise ApiError(
                409,
                f'cannot remove container "/{container.name}": container is running: stop the container before '
                "removing or force remove",
            )
        self.kill(container)
        del self.containers[container.id]
        container.status = "removing"
        container.notify()
        self._changed()

    def restart(self) -> None:
        """The host reboots: every process ends; with restart policy ``no`` nothing comes back."""
        for container in list(self.containers.values()):
            self.kill(container)

    def pull(self, name: str) -> None:
        if not self.any_image and _tagged(name) not in self.images:
            raise ApiError(404, f"manifest for {name} not found: manifest unknown: manifest unknown")
        self.images.add(_tagged(name))
        self._changed()

    def create_volume(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        volume = self.volumes.setdefault(
            name, {"Name": name, "Driver": "local", "Mountpoint": "", "Labels": labels, "Scope": "local"}
        )
        self._changed()
        return volume

    def remove_volume(self, name: str) -> None:
        if name not in self.volumes:
            raise ApiError(404, f"get {name}: no such volume")
        for container in self.containers.values():
            mounts = (container.config.get("HostConfig") or {}).get("Mounts") or []
            if any(mount.get("Source") == name for mount in mounts):
                raise ApiError(409, f"remove {name}: volume is in use - [{container.id}]")
        del self.volumes[name]
        self._changed()

    @staticmethod
    def _requests(config: dict[str, Any]) -> list[dict[str, Any]]:
        return (config.get("HostConfig") or {}).get("DeviceRequests") or []

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


def now(skew: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + skew).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def _argv(config: dict[str, Any]) -> list[str]:
    parts: list[str] = []
    for key in ("Entrypoint", "Cmd"):
        value = config.get(key) or []
        parts += [value] if isinstance(value, str) else list(value)
    return parts


def _tagged(name: str) -> str:
    """``busybox`` is ``busybox:latest``; a digest stays as it is."""
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def _filter_values(filters: dict[str, Any], key: str) -> list[str]:
    """Both forms of a filter: a list, and Docker's ``{"value": true}``."""
    return list(filters.get(key) or [])


def _has_label(own: dict[str, str], wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    return name in own and (not equals or own[name] == value)


def _hook_failed(words: str) -> str:
    return (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
        "failed: unable to start container process: error during container init: error running prestart hook #0: exit "
        f"status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: {words}: unknown"
    )

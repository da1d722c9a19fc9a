"""One virtual node: its settings, its containers, and the rules dockerd holds its callers to."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engines.virtual import create_checks, facts, processes
from engines.virtual.cards import Card, make_cards, visible
from engines.virtual.containers import KILLED, ZERO_TIME, Container, Exec
from engines.virtual.faults import Fault, Faults
from engines.virtual.gpu_attachment import Attachment, attach
from engines.virtual.images import familiar
from engines.virtual.json_shape import EXEC_CREATE, check_shape
from engines.virtual.messages import ApiError
from engines.virtual.nvidia_smi import NvidiaSmi
from engines.virtual.ports import publish
from engines.virtual.programs import Program
from engines.virtual.volumes import Volumes

START_FAILED, NOT_FOUND = 128, 127
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(slots=True)
class VirtualNode:
    """One simulated host. Its attributes may be changed while it serves, inside its event loop."""

    name: str = "virtual"
    cards: list[Card] = field(default_factory=list)
    toolkit: bool = True
    default_runtime: str = "runc"
    cdi: bool = False
    """CDI is on, with a spec that lists the cards there are."""
    driver_failure: str = ""
    """What the toolkit says instead of attaching, e.g. ``nvml error: driver/library version mismatch``."""
    smi_failure: str = ""
    """What nvidia-smi prints in a container instead of any answer."""
    smi_exit_code: int = 9
    smi_hangs: bool = False
    any_image: bool = True
    """Any well-formed image can be pulled; else only those in ``images``."""
    pull_seconds: float = 0.2
    image_env: dict[str, dict[str, str]] = field(default_factory=dict)
    """Variables baked into an image, by its reference."""
    registry_logins: dict[str, tuple[str, str]] = field(default_factory=dict)
    """User and password that images beginning with a prefix can be pulled with only."""
    platform: str = "Virtual"
    operating_system: str = "Miabi virtual node"
    kernel_version: str = "6.1.0-virtual"
    security_options: list[str] = field(default_factory=lambda: ["name=seccomp,profile=builtin", "name=cgroupns"])
    data_root: str = "/var/lib/docker"
    api_version: str = "1.47"
    min_api_version: str = "1.24"
    clock_skew_s: float = 0.0
    down_until: float = 0.0
    """On the monotonic clock: until then, each connection is closed unanswered."""
    images: set[str] = field(default_factory=set)
    containers: dict[str, Container] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    execs: dict[str, Exec] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    on_change: Callable[[], None] | None = None
    connections: set[Callable[[], None]] = field(default_factory=set)
    """What cuts each open connection."""

    @classmethod
    def with_cards(cls, name: str, count: int, **fields: Any) -> VirtualNode:
        return cls(name=name, cards=make_cards(name, count), **fields)

    # --- Clock ---------------------------------------------------------------------------
    def clock(self) -> float:
        """The host's own idea of the seconds since the epoch."""
        return time.time() + self.clock_skew_s

    def now(self) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"

    # --- Finding -------------------------------------------------------------------------
    def find(self, key: str) -> Container:
        """By id, name, or the unambiguous beginning of an id. Raises ApiError."""
        if key in self.containers:
            return self.containers[key]
        name = key.removeprefix("/")
        named = [each for each in self.containers.values() if each.name == name]
        begun = [each for each in self.containers.values() if each.id.startswith(key)]
        if named:
            return named[0]
        if len(begun) > 1:
            raise ApiError(400, f"Multiple IDs found with provided prefix: {key}")
        if not begun or not key:
            raise ApiError(404, f"No such container: {key}")
        return begun[0]

    def image_named(self, reference: str) -> str:
        """The familiar name of an image the node has. Raises ApiError."""
        name = familiar(reference)
        if name not in self.images:
            raise ApiError(404, f"No such image: {name}")
        return name

    # --- Containers ----------------------------------------------------------------------
    def create(self, name: str, config: dict[str, Any]) -> Container:
        """Raises ApiError as dockerd refuses a create."""
        if name:
            create_checks.check_name(name)
        create_checks.check_config(config, facts.runtimes(self))
        if not config.get("Image"):
            empty = "config cannot be empty in order to create a container"
            raise ApiError(400, "no command specified" if config else empty)
        image = self.image_named(str(config["Image"]))
        name = name.removeprefix("/") or f"virtual_{secrets.token_hex(4)}"
        self._check_name_is_free(name)
        mounts = create_checks.read_mounts(config)
        given = create_checks.named_sources(config)
        for mount in mounts:
            if mount["Type"] == "volume":
                self.volumes.ensure(mount["Name"], {}, self.now(), anonymous=mount["Name"] not in given)
        container = Container(secrets.token_hex(32), name, config, self.now(), image_name=image, mounts=mounts)
        own = dict(str(pair).partition("=")[::2] for pair in config.get("Env") or [])
        container.env = {"PATH": PATH, **self.image_env.get(image, {}), **own}
        self.containers[container.id] = container
        self.changed()
        return container

    def start(self, container: Container) -> bool:
        """False when it runs already. Raises ApiError where dockerd cannot start it."""
        if container.running:
            return False
        if container.status == "removing":
            raise ApiError(409, f"container is marked for removal and cannot be started: {container.id}")
        try:
            container.attachment = attach(self, container.host_config, container.env)
            program = self.program(container, container.argv)
            if missing := program.missing_executable():
                raise ApiError(400, _not_executable(missing))
            container.ports = publish(container, self.containers.values())
        except ApiError as error:
            container.error = error.message
            container.exit_code = NOT_FOUND if error.status == 400 else START_FAILED
            self.changed()
            raise
        container.cancel_tasks()
        container.status, container.started_at, container.finished_at = "running", self.now(), ZERO_TIME
        container.exit_code, container.error, container.oom_killed = 0, "", False
        container.stopped_by_hand = False
        self._spawn(container, self._live(container, program))
        if command := processes.health_command(container):
            container.health, container.failing_streak = "starting", 0
            check = processes.watch_health(container, lambda: self.program(container, command, serves=False))
            self._spawn(container, check)
        if death := self.faults.next_death():
            self._spawn(container, self._die(container, death))
        self.changed()
        return True

    def kill(self, container: Container, exit_code: int = KILLED, *, oom: bool = False, by_hand: bool = True) -> None:
        """End the process now, as by a signal or for want of memory."""
        if container.status not in ("running", "restarting"):
            return
        container.stopped_by_hand = by_hand
        self._ended(container, exit_code, oom=oom)

    def rename(self, container: Container, name: str) -> None:
        create_checks.check_name(name)
        self._check_name_is_free(name.removeprefix("/"))
        container.name = name.removeprefix("/")
        self.changed()

    def remove(self, container: Container, *, force: bool, volumes: bool = False) -> None:
        if container.status in ("running", "restarting") and not force:
            raise ApiError(
                409,
                f'cannot remove container "/{container.name}": container is {container.status}: stop the container '
                "before removing or force remove",
            )
        self.kill(container)
        if self.containers.pop(container.id, None) is None:
            return
        container.cancel_tasks()
        container.status = "removing"
        container.notify()
        for exec_id in container.exec_ids:
            self.execs.pop(exec_id, None)
        own = [mount["Name"] for mount in container.mounts if mount.get("Name") in self.volumes.anonymous]
        for name in own if volumes else []:
            self.volumes.remove(name, self.volume_users(name))
        self.changed()

    def add_exec(self, container: Container, config: dict[str, Any]) -> Exec:
        """Raises ApiError as dockerd refuses an exec."""
        check_shape(config, EXEC_CREATE)
        given = config.get("Cmd") or []
        command = [given] if isinstance(given, str) else list(given)
        if not command:
            raise ApiError(400, "No exec command specified")
        if not container.running:
            raise ApiError(409, f"container {container.id} is not running")
        env = dict(str(pair).partition("=")[::2] for pair in config.get("Env") or [])
        made = Exec(secrets.token_hex(32), container, command, env, bool(config.get("Tty")))
        made.stdout, made.stderr = bool(config.get("AttachStdout")), bool(config.get("AttachStderr"))
        self.execs[made.id] = made
        container.exec_ids.append(made.id)
        return made

    def program(
        self, container: Container, argv: Sequence[str], *, env: dict[str, str] | None = None, serves: bool = True
    ) -> Program:
        """The command as it runs in the container; without ``serves``, beside its own process."""
        seen = {"HOSTNAME": container.id[:12], **container.env, **dict(container.attachment.env), **(env or {})}
        return Program(argv, seen, self._smi(container.attachment), serves)

    # --- The host ------------------------------------------------------------------------
    def restart(self, *, down_s: float = 0.0, lost: Sequence[str] = ()) -> None:
        """The host reboots: connections break, every process ends, and the cards in ``lost`` are gone.

        Containers come back by their restart policy; with policy ``no`` they stay as they ended.
        """
        self.down_until = time.monotonic() + down_s
        for cut in list(self.connections):
            cut()
        self.cards = [card for card in self.cards if card.uuid not in lost]
        self.execs.clear()
        for container in list(self.containers.values()):
            container.exec_ids.clear()
            policy, _ = container.restart_policy
            was_running = container.status in ("running", "restarting")
            if was_running:
                container.cancel_tasks()
                self._close(container, KILLED)
            if container.host_config.get("AutoRemove"):
                self.remove(container, force=True, volumes=True)
                continue
            if policy == "always" or (was_running and policy in ("unless-stopped", "on-failure")):
                self._spawn(container, self._start_again(container, down_s))
        self.changed()

    def check_pull(self, reference: str, login: tuple[str, str] | None = None) -> str:
        """The familiar name of what will be pulled. Raises ApiError as the registry refuses."""
        name = familiar(reference)
        for prefix, required in self.registry_logins.items():
            if name.startswith(prefix) and login != required:
                repository = name.rpartition(":")[0]
                raise ApiError(
                    404,
                    f"pull access denied for {repository}, repository does not exist or may require 'docker login': "
                    "denied: requested access to the resource is denied",
                )
        if not self.any_image and name not in self.images:
            raise ApiError(404, f"manifest for {name} not found: manifest unknown: manifest unknown")
        return name

    def pull(self, reference: str) -> str:
        """Have the image from now on; its familiar name. Raises ApiError."""
        name = self.check_pull(reference)
        self.keep_image(name)
        return name

    def keep_image(self, name: str) -> None:
        self.images.add(name)
        self.changed()

    def volume_users(self, name: str) -> list[str]:
        """Ids of the containers that mount the volume."""
        mounted = ((each.id, mount.get("Name")) for each in self.containers.values() for mount in each.mounts)
        return [container_id for container_id, volume in mounted if volume == name]

    def changed(self) -> None:
        """Say that what is kept over a restart of this process is another now."""
        if self.on_change is not None:
            self.on_change()

    # --- Inside --------------------------------------------------------------------------
    def _check_name_is_free(self, name: str) -> None:
        for other in self.containers.values():
            if other.name == name:
                raise ApiError(
                    409,
                    f'Conflict. The container name "/{name}" is already in use by container "{other.id}". You have to '
                    "remove (or rename) that container to be able to reuse that name.",
                )

    def _smi(self, attachment: Attachment) -> NvidiaSmi | None:
        if not attachment.has_smi:
            return None
        ids = list(attachment.ids) if self.faults.inside_shows is None else self.faults.inside_shows
        return NvidiaSmi(visible(self.cards, ids), self.smi_failure, self.smi_exit_code, self.smi_hangs)

    def _spawn(self, container: Container, work: Any) -> None:
        container.tasks.append(asyncio.get_running_loop().create_task(work))

    async def _live(self, container: Container, program: Program) -> None:
        exit_code = await processes.run_process(container, program, self.clock)
        self._ended(container, exit_code)

    async def _die(self, container: Container, death: Fault) -> None:
        await asyncio.sleep(self.faults.delay_of(death))
        self.kill(container, KILLED if death.oom else death.exit_code, oom=death.oom, by_hand=False)

    async def _start_again(self, container: Container, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        container.status = "exited"
        try:
            self.start(container)
        except ApiError:
            container.notify()

    def _ended(self, container: Container, exit_code: int, *, oom: bool = False) -> None:
        container.cancel_tasks()
        self._close(container, exit_code, oom=oom)
        if container.host_config.get("AutoRemove"):
            self.remove(container, force=True, volumes=True)
        elif processes.restarts(container):
            delay_s = processes.restart_delay_s(container)
            container.restart_count += 1
            container.status = "restarting"
            self._spawn(container, self._start_again(container, delay_s))
        self.changed()

    def _close(self, container: Container, exit_code: int, *, oom: bool = False) -> None:
        container.status, container.exit_code, container.oom_killed = "exited", exit_code, oom
        container.finished_at, container.ports = self.now(), {}
        if container.health:
            container.health = "unhealthy"
        container.notify()


def _not_executable(name: str) -> str:
    return (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
        f'failed: unable to start container process: error during container init: exec: "{name}": executable file not '
        "found in $PATH: unknown"
    )

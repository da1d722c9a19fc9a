"""What Miabi asks of any engine, what it gets back, and how an engine says no.

Every driver (``engines.docker``, and whatever answers its API) speaks these types;
nothing above this package knows a client library. No Django import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """PEM texts for a TLS connection; never logged."""

    ca_cert: str = field(repr=False)
    client_cert: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens.

    ``url`` is ``unix:///path``, ``tcp://host:port`` or ``https://host:port``. ``timeout_s``
    bounds each single call (connect and read), in seconds.
    """

    url: str
    tls: TlsMaterial | None = None
    timeout_s: float = 15.0


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine says about itself (``/version`` and ``/info``)."""

    engine_version: str
    api_version: str
    min_api_version: str
    operating_system: str
    kernel_version: str
    architecture: str
    runtimes: tuple[str, ...]
    default_runtime: str
    security_options: tuple[str, ...]
    cdi_spec_dirs: tuple[str, ...]
    cdi_devices: tuple[str, ...]
    cpus: int | None
    memory_bytes: int | None
    host_name: str
    system_time: datetime | None
    engine_id: str = ""
    """The engine's own identifier: another one at the same address is another engine."""
    data_root: str = ""
    """Where the engine keeps its data; tells e.g. a snap's engine from a packaged one."""


@dataclass(frozen=True, slots=True)
class GpuAttachment:
    """Exactly these devices, by UUID; never a count.

    ``capabilities`` are NVIDIA driver capabilities (``compute``, ``utility``, ...);
    ``utility`` is always added by the driver since verification needs it.
    """

    device_uuids: tuple[str, ...]
    capabilities: frozenset[str] = frozenset({"compute", "utility"})

    def __post_init__(self) -> None:
        if not self.device_uuids:
            raise ValueError("a GPU attachment names at least one device; use None for no GPU")
        if len(set(self.device_uuids)) != len(self.device_uuids):
            raise ValueError("a GPU attachment names each device once")


@dataclass(frozen=True, slots=True)
class PortMapping:
    container_port: int
    protocol: str = "tcp"
    publish: bool = False
    """Published ports get a free host port chosen by the engine."""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    volume: str
    """Name of an engine volume; never a host path."""
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class HealthCheck:
    command: tuple[str, ...]
    interval_s: float = 30.0
    timeout_s: float = 5.0
    retries: int = 3
    start_period_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    server: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A tenant's container, whole. What is not here cannot be asked for.

    There is no field for privileged mode, host paths, host namespaces, devices or
    added capabilities: the allow-list is the type itself.
    """

    name: str
    image: str
    labels: Mapping[str, str]
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    gpu: GpuAttachment | None = None
    ports: tuple[PortMapping, ...] = ()
    volumes: tuple[VolumeMount, ...] = ()
    nano_cpus: int | None = None
    memory_bytes: int | None = None
    pids_limit: int = 4096
    user: str = ""
    """Empty keeps the image's user."""
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()
    """Only ever filled by the platform's own allow-list, never from a tenant's words."""
    health: HealthCheck | None = None
    log_max_bytes: int = 10 * 1024 * 1024
    log_max_files: int = 3


class ContainerPhase(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    REMOVING = "removing"
    EXITED = "exited"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """The engine's own record of one container."""

    id: str
    name: str
    image: str
    labels: Mapping[str, str]
    phase: ContainerPhase
    exit_code: int | None
    oom_killed: bool
    error: str
    started_at: datetime | None
    finished_at: datetime | None
    health: str
    """``""`` without a health check, else ``starting``, ``healthy`` or ``unhealthy``."""
    requested_devices: tuple[str, ...]
    """Device ids of the container's device requests as the engine recorded them. Empty also
    when the record came from a list call, which does not carry them: see ``complete``."""
    visible_devices_env: str | None
    """Value of ``NVIDIA_VISIBLE_DEVICES`` in the container's recorded environment."""
    host_ports: Mapping[int, int]
    """Container port -> host port for published ports."""
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ExecResult:
    exit_code: int | None
    output: bytes


@dataclass(frozen=True, slots=True)
class OneShot:
    """A container run once for its output and removed whatever happens.

    All deadlines are seconds. ``all_gpus`` attaches every card: for the platform's own
    probe, never for a tenant's container.
    """

    name: str
    image: str
    command: tuple[str, ...]
    labels: Mapping[str, str]
    all_gpus: bool = False
    pull_deadline_s: float = 300.0
    create_deadline_s: float = 15.0
    start_deadline_s: float = 30.0
    wait_deadline_s: float = 60.0
    output_limit_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OneShotResult:
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool = False
    """The output was cut at the job's limit."""


class EngineError(Exception):
    """An engine did not do what it was asked.

    ``message`` is the engine's own text: for operators and logs, never for tenants.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EngineUnreachable(EngineError):
    """No connection, or it broke: the engine may or may not have acted."""


class EngineTimeout(EngineUnreachable):
    """The engine did not answer in time: it may or may not have acted.

    ``phase`` says in which step: ``pull``, ``create``, ``start``, ``wait`` or ``call``.
    """

    def __init__(self, message: str, *, phase: str = "call") -> None:
        super().__init__(message)
        self.phase = phase


class ImageUnavailable(EngineError):
    """The image cannot be pulled: unknown, denied, rate-limited or no network."""


class ContainerNotFound(EngineError):
    """The engine confirms that there is no such container."""


class NameTaken(EngineError):
    """A container that is not ours holds the name."""


class GpuDriverMissing(EngineError):
    """The engine has no driver for device requests (no toolkit): nothing was attached."""


class GpuDriverFailed(GpuDriverMissing):
    """The toolkit is there, and the vendor's kernel driver did not answer it (mismatch, not loaded)."""


class DeviceRefused(EngineError):
    """The toolkit refused a device, e.g. an unknown UUID."""


class StartRefused(EngineError):
    """The container was created and could not be started (bad command, mount, ...)."""


class RequestRefused(EngineError):
    """The engine calls the request itself invalid (4xx)."""


class Engine(Protocol):
    """A container engine, reached over its API. Every call is bounded in time."""

    def facts(self) -> EngineFacts:
        """Ask the engine who it is."""

    def image_present(self, image: str) -> bool: ...

    def pull(
        self,
        image: str,
        *,
        login: RegistryLogin | None = None,
        deadline_s: float = 900.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """Fetch ``image``. ``on_progress`` may raise to abandon the pull.

        It is called for each line of the engine's progress, and every few seconds of
        silence with the latest one again (empty before the first).

        Raises:
            ImageUnavailable, EngineTimeout, EngineUnreachable
        """

    def ensure_volume(self, name: str, labels: Mapping[str, str]) -> None: ...

    def remove_volume(self, name: str) -> None:
        """Remove a volume of ours; absent is fine."""

    def create(self, spec: ContainerSpec) -> str:
        """Create the container and return its id.

        The name is derived from the attempt, so when a container of that name with the
        same labels already exists (an earlier call timed out after the engine acted),
        its id is returned. Raises NameTaken when it belongs to somebody else.
        """

    def start(self, container_id: str) -> None:
        """Start it; already running is fine.

        Raises:
            GpuDriverMissing, DeviceRefused, StartRefused, ContainerNotFound
        """

    def inspect(self, container: str) -> ContainerStatus:
        """The engine's full record by id or name. Raises ContainerNotFound."""

    def remove(self, container: str, *, grace_s: float = 10.0) -> None:
        """Stop, remove, and return only when the engine confirms that it is gone.

        Already absent is success. Raises EngineError when absence is not confirmed.
        """

    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerStatus]:
        """All containers (running or not) that carry every one of ``labels``."""

    def logs(
        self,
        container: str,
        *,
        tail: int | None = 200,
        follow: bool = False,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """Standard output and error, interleaved, as chunks of whole lines.

        An error is raised by the call itself. When following, an empty chunk says that
        nothing came for some seconds: time to look whether anybody still listens.
        """

    def execute(self, container: str, command: tuple[str, ...], *, deadline_s: float = 10.0) -> ExecResult:
        """Run a command inside a running container and return what it printed.

        Raises:
            ContainerNotFound, EngineTimeout, RequestRefused (not running, no such binary)
        """

    def run_once(self, job: OneShot) -> OneShotResult:
        """Run ``job``; its container is removed whatever happens.

        A leftover of the same name and labels from an earlier, killed run is removed first.
        """

    def close(self) -> None: ...

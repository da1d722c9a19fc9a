"""``DockerEngine``: the contract over the Docker Engine API. The work is in the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from engines.contract import (
    ContainerSpec,
    ContainerStatus,
    EngineAddress,
    EngineFacts,
    ExecResult,
    OneShot,
    OneShotResult,
    RegistryLogin,
)
from engines.docker import containers, execution, facts, images, logs, oneshot, volumes
from engines.docker.container_config import container_config
from engines.docker.device_requests import AttachMode, check_cdi_names
from engines.docker.transport import Transport


class DockerEngine:
    """One engine, usable from any number of threads. Connects at the first call.

    ``attach_mode`` is how this node attaches cards: ``device_request`` through dockerd's
    NVIDIA driver, ``cdi`` by CDI device names.
    """

    def __init__(self, address: EngineAddress, *, attach_mode: AttachMode = "device_request") -> None:
        self.address = address
        self.attach_mode = attach_mode
        self._transport = Transport(address)

    def facts(self) -> EngineFacts:
        return facts.read_facts(self._transport)

    def image_present(self, image: str) -> bool:
        return images.present(self._transport, image)

    def pull(
        self,
        image: str,
        *,
        login: RegistryLogin | None = None,
        deadline_s: float = 900.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        images.pull(self._transport, image, login=login, deadline_s=deadline_s, on_progress=on_progress)

    def ensure_volume(self, name: str, labels: Mapping[str, str]) -> None:
        volumes.ensure(self._transport, name, labels)

    def remove_volume(self, name: str) -> None:
        volumes.remove(self._transport, name)

    def create(self, spec: ContainerSpec) -> str:
        config = container_config(spec, attach_mode=self.attach_mode)
        if spec.gpu is not None and self.attach_mode == "cdi":
            check_cdi_names(spec.gpu, facts.read_cdi_devices(self._transport))
        return containers.create_or_adopt(self._transport, spec.name, config)

    def start(self, container_id: str) -> None:
        containers.start(self._transport, container_id)

    def inspect(self, container: str) -> ContainerStatus:
        return containers.inspect(self._transport, container)

    def remove(self, container: str, *, grace_s: float = 10.0) -> None:
        containers.remove(self._transport, container, grace_s=grace_s)

    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerStatus]:
        return containers.list_by_labels(self._transport, labels)

    def logs(
        self,
        container: str,
        *,
        tail: int | None = 200,
        follow: bool = False,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        return logs.read_logs(self._transport, container, tail=tail, follow=follow, since=since, timestamps=timestamps)

    def execute(self, container: str, command: tuple[str, ...], *, deadline_s: float = 10.0) -> ExecResult:
        return execution.execute(self._transport, container, command, deadline_s=deadline_s)

    def run_once(self, job: OneShot) -> OneShotResult:
        return oneshot.run_once(self._transport, job, attach_mode=self.attach_mode)

    def close(self) -> None:
        self._transport.close()

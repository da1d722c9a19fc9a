"""The platform's own short containers: run once, read the output, remove, whatever happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from engines.contract import (
    ContainerNotFound,
    EngineError,
    EngineUnreachable,
    ImageUnavailable,
    NameTaken,
    OneShot,
    OneShotResult,
)
from engines.docker import containers, images, logs, records
from engines.docker.container_config import one_shot_config
from engines.docker.device_requests import AttachMode
from engines.docker.transport import Transport, segment

log = logging.getLogger(__name__)


def run_once(transport: Transport, job: OneShot, *, attach_mode: AttachMode = "device_request") -> OneShotResult:
    """Create, start, wait, read and remove, each step with its own deadline.

    The image is pulled when the engine does not have it. A container of the job's name and
    labels is the leftover of a run that was killed: it goes first.

    Raises:
        ImageUnavailable, GpuDriverMissing, DeviceRefused, StartRefused, NameTaken
        EngineTimeout: ``phase`` says in which step.
    """
    config = one_shot_config(job, attach_mode=attach_mode)
    began = time.monotonic()
    try:
        container = _create(transport, job, config)
    except EngineUnreachable:
        # It may have been created all the same, or will be in a moment.
        _sweep(transport, job)
        raise
    try:
        containers.start(transport, container, timeout_s=job.start_deadline_s)
        exit_code = _wait(transport, container, deadline_s=job.wait_deadline_s)
        stdout, stderr, truncated = logs.collect(
            transport, container, limit_bytes=job.output_limit_bytes, timeout_s=transport.address.timeout_s
        )
    finally:
        _remove(transport, job.name, container)
    seconds = time.monotonic() - began
    return OneShotResult(exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=seconds, truncated=truncated)


def _create(transport: Transport, job: OneShot, config: Mapping[str, Any]) -> str:
    """Create; cure what can be cured (no image, a leftover) once each."""
    cures = {ImageUnavailable: _fetch, NameTaken: _remove_leftover}
    while True:
        try:
            return containers.create(transport, job.name, config, timeout_s=job.create_deadline_s)
        except (ImageUnavailable, NameTaken) as error:
            cure = cures.pop(type(error), None)
            if cure is None:
                raise
            cure(transport, job)


def _fetch(transport: Transport, job: OneShot) -> None:
    images.pull(transport, job.image, login=None, deadline_s=job.pull_deadline_s, on_progress=None)


def _remove_leftover(transport: Transport, job: OneShot) -> None:
    try:
        holder = containers.inspect(transport, job.name)
    except ContainerNotFound:
        return
    if not records.carries(holder.labels, job.labels):
        raise NameTaken(f"the container named {job.name} is not ours")
    containers.discard(transport, holder.id)


def _wait(transport: Transport, container: str, *, deadline_s: float) -> int:
    answer = transport.call("POST", f"/containers/{segment(container)}/wait", timeout_s=deadline_s, phase="wait")
    answer.raise_for_error("wait")
    return answer.read_as(lambda outcome: int(outcome["StatusCode"]))


def _sweep(transport: Transport, job: OneShot) -> None:
    """After a create without an answer. If this fails too, the next run finds the leftover."""
    try:
        _remove_leftover(transport, job)
    except EngineError as error:
        log.warning("one-shot %s may have been left behind: %s", job.name, error)


def _remove(transport: Transport, name: str, container: str) -> None:
    """The run's own outcome counts; what stays behind, the next run removes by its name."""
    try:
        containers.discard(transport, container)
    except EngineError as error:
        log.warning("one-shot %s was not removed: %s", name, error)

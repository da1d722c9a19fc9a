"""Ask one engine what it has: facts, then one container with all cards. No database here.

Whatever goes wrong is classified, so the caller only has to store the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from engines import contract
from engines.contract import ContainerStatus, Engine, EngineError, EngineFacts, OneShot
from gpus.nvidia_smi import read_probe
from gpus.preflight import Preflight, examine
from gpus.probe_command import PROBE_COMMAND, split_probe_output
from gpus.probe_failures import FailureReason, ProbeFailure, failure
from gpus.readings import ProbeReport


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to run where, and what to look for. Deadlines in seconds."""

    container_name: str
    image: str
    labels: Mapping[str, str]
    probe_labels: Mapping[str, str]
    """Those of ``labels`` that every probe container of this installation carries."""
    is_leftover: Callable[[ContainerStatus], bool]
    """Whether such a container on the engine belongs to no probe that may still run."""
    runtime_name: str
    attach_mode: Literal["device_request", "cdi"]
    toolkit_version: str
    toolkit_floor: str
    pull_deadline_s: float
    wait_deadline_s: float
    """For the start, in which the toolkit asks the driver already, and again for the run."""
    now: datetime


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """``facts`` is None when the engine did not even say who it is."""

    facts: EngineFacts | None = None
    preflight: Preflight | None = None
    report: ProbeReport = field(default_factory=ProbeReport)
    seconds: float = 0.0

    @property
    def failure(self) -> ProbeFailure | None:
        return self.report.failure


def probe(engine: Engine, request: ProbeRequest) -> ProbeAnswer:
    """Facts, preflight and, where the toolkit is there, the cards. Never raises EngineError."""
    begun = time.monotonic()
    try:
        facts = engine.facts()
    except EngineError as error:
        return ProbeAnswer(report=_failed(FailureReason.UNREACHABLE, error.message), seconds=time.monotonic() - begun)
    preflight = examine(
        facts,
        runtime_name=request.runtime_name,
        attach_mode=request.attach_mode,
        toolkit_version=request.toolkit_version,
        toolkit_floor=request.toolkit_floor,
        now=request.now,
    )
    if not preflight.toolkit:
        report = _toolkit_missing(preflight)
    else:
        report = _sweep(engine, request) or _run(engine, request)
        if report.failure is None and not preflight.isolates:
            report = replace(report, failure=failure(FailureReason.NO_ISOLATION))
    return ProbeAnswer(facts, preflight, report, time.monotonic() - begun)


def _toolkit_missing(preflight: Preflight) -> ProbeReport:
    light = next(light for light in preflight.lights if light.code == "toolkit")
    return ProbeReport(failure=ProbeFailure(FailureReason.TOOLKIT_MISSING, light.sentence, light.fix))


def _sweep(engine: Engine, request: ProbeRequest) -> ProbeReport | None:
    """Remove what killed probes left behind; None when nothing is left."""
    try:
        for container in engine.list_containers(request.probe_labels):
            if request.is_leftover(container):
                engine.remove(container.id, grace_s=0)
    except EngineError as error:
        if isinstance(error, contract.EngineUnreachable) and not isinstance(error, contract.EngineTimeout):
            return _failed(FailureReason.UNREACHABLE, error.message)
        # A container that cannot be killed is held by a process that the driver does not let go.
        return _failed(FailureReason.HUNG, f"The container of an earlier probe cannot be removed: {error.message}")
    return None


def _run(engine: Engine, request: ProbeRequest) -> ProbeReport:
    job = OneShot(
        name=request.container_name,
        image=request.image,
        command=PROBE_COMMAND,
        labels=request.labels,
        all_gpus=True,
        pull_deadline_s=request.pull_deadline_s,
        start_deadline_s=request.wait_deadline_s,
        wait_deadline_s=request.wait_deadline_s,
    )
    try:
        result = engine.run_once(job)
    except EngineError as error:
        return _failed(_reason(error), error.message)
    if result.truncated:
        return _failed(FailureReason.UNREADABLE, f"More than {job.output_limit_bytes} bytes of output.")
    xml, listing = split_probe_output(result.stdout)
    return read_probe(
        xml + b"\n" + result.stderr if b"<nvidia_smi_log" not in xml else xml,
        listing,
        exit_code=result.exit_code,
    )


def _reason(error: EngineError) -> FailureReason:
    match error:
        case contract.EngineTimeout(phase="pull") | contract.ImageUnavailable():
            return FailureReason.IMAGE_UNAVAILABLE
        case contract.EngineTimeout(phase="start" | "wait"):
            return FailureReason.HUNG
        case contract.EngineUnreachable():
            return FailureReason.UNREACHABLE
        case contract.GpuDriverFailed():
            mismatch = "version mismatch" in error.message.lower()
            return FailureReason.DRIVER_MISMATCH if mismatch else FailureReason.DRIVER_MISSING
        case contract.GpuDriverMissing():
            return FailureReason.TOOLKIT_MISSING
        case _:
            return FailureReason.ENGINE_REFUSED


def _failed(reason: FailureReason, detail: str) -> ProbeReport:
    return ProbeReport(failure=failure(reason, detail))

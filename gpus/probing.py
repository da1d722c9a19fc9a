"""Ask one engine what it has: facts, then one container with all cards. No database here.

Whatever goes wrong is classified, so the caller only has to store the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from engines import contract
from engines.contract import Engine, EngineFacts, OneShot
from gpus.nvidia_smi import read_probe
from gpus.preflight import Preflight, examine
from gpus.probe_command import PROBE_COMMAND, split_probe_output
from gpus.probe_failures import FailureReason, ProbeFailure, failure
from gpus.readings import ProbeReport


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to run where. Deadlines in seconds."""

    container_name: str
    image: str
    labels: Mapping[str, str]
    runtime: str
    cdi: bool
    pull_deadline_s: float
    wait_deadline_s: float
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
    except contract.EngineError as error:
        return ProbeAnswer(report=_failed(FailureReason.UNREACHABLE, error.message), seconds=time.monotonic() - begun)
    preflight = examine(facts, runtime=request.runtime, cdi=request.cdi, now=request.now)
    if not preflight.toolkit:
        report = _failed(FailureReason.TOOLKIT_MISSING, f"Runtimes: {', '.join(facts.runtimes) or 'none'}.")
    else:
        report = _run(engine, request)
        if report.failure is None and not preflight.isolates:
            report = ProbeReport(devices=report.devices, failure=failure(FailureReason.NO_ISOLATION))
    return ProbeAnswer(facts, preflight, report, time.monotonic() - begun)


def _run(engine: Engine, request: ProbeRequest) -> ProbeReport:
    job = OneShot(
        name=request.container_name,
        image=request.image,
        command=PROBE_COMMAND,
        labels=request.labels,
        all_gpus=True,
        pull_deadline_s=request.pull_deadline_s,
        wait_deadline_s=request.wait_deadline_s,
    )
    try:
        result = engine.run_once(job)
    except contract.EngineError as error:
        return _failed(_reason(error), error.message)
    xml, listing = split_probe_output(result.stdout)
    return read_probe(
        xml + b"\n" + result.stderr if b"<nvidia_smi_log" not in xml else xml,
        listing,
        exit_code=result.exit_code,
    )


def _reason(error: contract.EngineError) -> FailureReason:
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

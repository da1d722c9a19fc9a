"""What is kept of an engine's facts on a node's row, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypedDict, cast

from engines.contract import EngineFacts
from gpus.preflight import Light, Preflight
from gpus.readings import ProbeReport


class LightFacts(TypedDict):
    code: str
    status: str
    sentence: str
    fix: str


class NodeFacts(TypedDict, total=False):
    """``Node.facts``. Absent until the engine has answered once, but for ``lights``."""

    engine_version: str
    api_version: str
    min_api_version: str
    operating_system: str
    kernel_version: str
    architecture: str
    runtimes: list[str]
    default_runtime: str
    security_options: list[str]
    cdi_spec_dirs: list[str]
    cdi_devices: list[str]
    cpus: int | None
    memory_bytes: int | None
    host_name: str
    system_time: str | None
    engine_id: str
    data_root: str
    toolkit_version: str
    """As the operator states it in the node's labels; "" is unknown."""
    lights: list[LightFacts]
    driver_version: str
    cuda_version: str
    warnings: list[str]
    probe_seconds: float


def facts_of(
    facts: EngineFacts,
    preflight: Preflight,
    report: ProbeReport,
    *,
    before: Mapping[str, Any],
    warnings: tuple[str, ...],
    toolkit_version: str,
    seconds: float,
) -> NodeFacts:
    """All of it. A driver version that this probe did not get to is kept from ``before``."""
    told: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(facts).items()
    }
    told["system_time"] = facts.system_time.isoformat() if facts.system_time else None
    told |= {
        "toolkit_version": toolkit_version,
        "lights": [light_of(light) for light in preflight.lights],
        "driver_version": report.driver_version or before.get("driver_version", ""),
        "cuda_version": report.cuda_version or before.get("cuda_version", ""),
        "warnings": [*report.warnings, *warnings],
        "probe_seconds": round(seconds, 3),
    }
    return cast(NodeFacts, told)


def without_contact(before: Mapping[str, Any], light: Light) -> NodeFacts:
    """What was known before, with ``light`` in the place of the one that said "reachable"."""
    others = [each for each in before.get("lights", []) if each["code"] != light.code]
    return cast(NodeFacts, dict(before) | {"lights": [light_of(light), *others]})


def light_of(light: Light) -> LightFacts:
    return {"code": light.code, "status": light.status.value, "sentence": light.sentence, "fix": light.fix}

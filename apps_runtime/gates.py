"""Whether a workspace may ask for what it asks: capability, policy and quota. Pure.

Entitlement only; which devices there are is placement's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plans.limits import UNLIMITED, Limits, SecurityProfile, exceeds
from refusals import Conflict, NotPermitted, PolicyRefusal


class GpuDisabled(NotPermitted):
    code = "gpu_disabled"


class GpuNotAllowed(NotPermitted):
    code = "gpu_not_allowed"


class WorkspaceSuspended(NotPermitted):
    code = "workspace_suspended"


class GpuRestrictedProfile(PolicyRefusal):
    code = "gpu_restricted_profile"


class GpuRequiresSingleContainer(PolicyRefusal):
    code = "gpu_requires_single_container"


class ResourceLimitRequired(PolicyRefusal):
    code = "resource_limit_required"


class GpuQuotaExceeded(Conflict):
    code = "gpu_quota_exceeded"


class CpuQuotaExceeded(Conflict):
    code = "cpu_quota_exceeded"


class MemoryQuotaExceeded(Conflict):
    code = "memory_quota_exceeded"


@dataclass(frozen=True, slots=True)
class Ask:
    """What one app asks for. CPU in millicores, memory in MiB; None: no limit set."""

    gpu: int = 0
    cpu_millis: int | None = None
    memory_mib: int | None = None
    runtime: str = "container"
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """What a workspace's live apps hold, one app left out where that is asked for."""

    gpu: int = 0
    cpu_millis: int = 0
    memory_mib: int = 0
    apps: int = 0


def check_capability(workspace: str, limits: Limits, ask: Ask, *, gpu_enabled: bool, enforced: bool) -> None:
    """Refuse a GPU request that this workspace may not make at all, whatever is free.

    ``enforced`` false (no plans) leaves out what the plan says; policy still holds.

    Raises:
        GpuDisabled, GpuNotAllowed, GpuRestrictedProfile, GpuRequiresSingleContainer
    """
    if ask.gpu == 0:
        return
    if not gpu_enabled:
        raise GpuDisabled(
            "GPUs are switched off on this installation. Set gpu to 0, or ask the operator to set MIABI_GPU_ENABLED.",
            attr="gpu",
        )
    if enforced and not limits.gpu_allowed:
        raise GpuNotAllowed(
            f"The plan of workspace {workspace} does not allow GPUs. Set gpu to 0, or ask the operator for a plan "
            "with GPUs.",
            attr="gpu",
            facts={"requested": ask.gpu},
        )
    if limits.security_profile is SecurityProfile.RESTRICTED:
        raise GpuRestrictedProfile(
            f"Workspace {workspace} runs under the restricted security profile, which excludes GPUs. Set gpu to 0, "
            "or ask the operator for the default profile.",
            attr="gpu",
        )
    if ask.runtime != "container" or ask.replicas > 1:
        raise GpuRequiresSingleContainer(
            f"An app with GPUs runs as one container, but runtime is {ask.runtime} with {ask.replicas} replica(s). "
            "Set runtime to container and replicas to 1.",
            attr="runtime",
        )


def check_quota(workspace: str, limits: Limits, used: Usage, ask: Ask) -> None:
    """Refuse what would take the workspace past its limits.

    ``used`` is what its other live apps hold: an app's own units do not count twice.

    Raises:
        GpuQuotaExceeded, CpuQuotaExceeded, MemoryQuotaExceeded, ResourceLimitRequired
    """
    if exceeds(limits.gpu_units, used.gpu, ask.gpu):
        raise GpuQuotaExceeded(
            f"Workspace {workspace} holds {used.gpu} of {limits.gpu_units} GPU units and {ask.gpu} more were "
            "requested. Stop an app that holds GPUs, or ask the operator for a higher limit.",
            attr="gpu",
            facts=_facts(limits.gpu_units, used.gpu, ask.gpu),
        )
    for name, limit, held, asked, refusal in (
        ("CPU (millicores)", limits.cpu_limit, used.cpu_millis, ask.cpu_millis, CpuQuotaExceeded),
        ("memory (MiB)", limits.memory_limit, used.memory_mib, ask.memory_mib, MemoryQuotaExceeded),
    ):
        if limit == UNLIMITED:
            continue
        attr = "cpu" if refusal is CpuQuotaExceeded else "memory"
        if asked is None:
            raise ResourceLimitRequired(
                f"Workspace {workspace} has a limit of {limit} {name}, so each app must say how much it needs. "
                f"Set {attr}.",
                attr=attr,
                facts={"limit": limit},
            )
        if exceeds(limit, held, asked):
            raise refusal(
                f"Workspace {workspace} uses {held} of {limit} {name} and {asked} more were requested. Stop an app, "
                "ask for less, or ask the operator for a higher limit.",
                attr=attr,
                facts=_facts(limit, held, asked),
            )


def check_not_suspended(workspace: str, suspended: bool) -> None:
    """Raises WorkspaceSuspended."""
    if suspended:
        raise WorkspaceSuspended(
            f"Workspace {workspace} is suspended: its apps can be read and stopped, not started. Ask the operator."
        )


def _facts(limit: int, used: int, requested: int) -> Mapping[str, object]:
    return {"limit": limit, "used": used, "requested": requested}

"""What a workspace may ask for, and how much of it is used: for the API and the pages."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from apps_runtime import admission
from apps_runtime.declaring import kinds_for_tenants
from apps_runtime.models import App
from plans.limits import SecurityProfile
from workspaces.models import Workspace
from workspaces.roles import Role


def capabilities_of(workspace: Workspace, role: Role) -> dict[str, Any]:
    """Limits (-1: unlimited) beside what is used; CPU in millicores, memory in MiB.

    There is no ``gpu`` block where the workspace may not ask for GPUs at all.
    """
    limits = workspace.limits
    used = admission.usage_of(workspace)
    told: dict[str, Any] = {
        "workspace": workspace.slug,
        "role": role,
        "suspended": workspace.suspended,
        "apps": {"limit": limits.app_limit, "used": App.objects.filter(workspace=workspace).count()},
        "cpu": {"limit": limits.cpu_limit, "used": used.cpu_millis},
        "memory": {"limit": limits.memory_limit, "used": used.memory_mib},
        "security_profile": limits.security_profile,
    }
    if may_ask_for_gpus(workspace):
        unlimited = not admission.enforced()
        limit = -1 if unlimited else limits.gpu_units
        told["gpu"] = {
            "limit": limit,
            "used": used.gpu,
            "remaining": -1 if limit == -1 else max(0, limit - used.gpu),
            "kinds": kinds_for_tenants(),
            "capabilities": ["compute", "utility", "video", "graphics"],
        }
    return told


def may_ask_for_gpus(workspace: Workspace) -> bool:
    """Whether the GPU controls are shown at all."""
    limits = workspace.limits
    allowed = limits.gpu_allowed or not admission.enforced()
    return bool(settings.MIABI_GPU_ENABLED) and allowed and limits.security_profile is not SecurityProfile.RESTRICTED

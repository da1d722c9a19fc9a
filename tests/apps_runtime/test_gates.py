"""Capability, policy and quota."""

from typing import Any

import pytest

from apps_runtime import gates
from apps_runtime.gates import Ask, Usage
from plans.limits import Limits, SecurityProfile
from refusals import Refusal


def limits(**changes):
    values: dict[str, Any] = {
        "gpu_allowed": True,
        "gpu_limit": 4,
        "cpu_limit": -1,
        "memory_limit": -1,
        "app_limit": -1,
        "security_profile": SecurityProfile.DEFAULT,
        "max_lease_hours": -1,
    }
    return Limits(**(values | changes))


def capability(ask, *, gpu_enabled=True, enforced=True, **changes):
    gates.check_capability("vision", limits(**changes), ask, gpu_enabled=gpu_enabled, enforced=enforced)


@pytest.mark.parametrize(
    ("ask", "changes", "code", "status"),
    [
        (Ask(gpu=1), {"gpu_enabled": False}, "gpu_disabled", 403),
        (Ask(gpu=1), {"gpu_allowed": False}, "gpu_not_allowed", 403),
        (Ask(gpu=1), {"security_profile": SecurityProfile.RESTRICTED}, "gpu_restricted_profile", 422),
        (Ask(gpu=1, runtime="service"), {}, "gpu_requires_single_container", 422),
        (Ask(gpu=1, replicas=2), {}, "gpu_requires_single_container", 422),
    ],
)
def test_a_gpu_that_may_not_be_asked_for_is_refused(ask, changes, code, status):
    with pytest.raises(Refusal) as refused:
        capability(ask, **changes)
    assert (refused.value.code, refused.value.status) == (code, status)


def test_an_app_without_gpus_passes_whatever_the_plan_says():
    capability(Ask(gpu=0, runtime="service", replicas=3), gpu_enabled=False, gpu_allowed=False)


def test_without_plan_enforcement_the_capability_is_not_asked():
    capability(Ask(gpu=1), enforced=False, gpu_allowed=False)


def test_without_plan_enforcement_policy_still_holds():
    with pytest.raises(gates.GpuRestrictedProfile):
        capability(Ask(gpu=1), enforced=False, security_profile=SecurityProfile.RESTRICTED)


def test_the_last_unit_is_given_and_one_more_is_refused_with_the_figures():
    gates.check_quota("vision", limits(gpu_limit=4), Usage(gpu=3), Ask(gpu=1))
    with pytest.raises(gates.GpuQuotaExceeded) as refused:
        gates.check_quota("vision", limits(gpu_limit=4), Usage(gpu=3), Ask(gpu=2))
    assert refused.value.facts == {"limit": 4, "used": 3, "requested": 2}
    assert "vision holds 3 of 4 GPU units and 2 more" in refused.value.detail


def test_unlimited_is_never_exceeded():
    gates.check_quota("vision", limits(gpu_limit=-1), Usage(gpu=10_000), Ask(gpu=64))


def test_a_limit_of_zero_gives_none():
    with pytest.raises(gates.GpuQuotaExceeded):
        gates.check_quota("vision", limits(gpu_limit=0), Usage(), Ask(gpu=1))


def test_an_app_without_gpus_passes_a_full_gpu_quota():
    gates.check_quota("vision", limits(gpu_limit=1), Usage(gpu=5), Ask(gpu=0))


@pytest.mark.parametrize(
    ("ask", "changes", "code"),
    [
        (Ask(cpu_millis=600), {"cpu_limit": 1000}, "cpu_quota_exceeded"),
        (Ask(memory_mib=600), {"memory_limit": 1000}, "memory_quota_exceeded"),
        (Ask(), {"cpu_limit": 1000}, "resource_limit_required"),
        (Ask(), {"memory_limit": 1000}, "resource_limit_required"),
    ],
)
def test_cpu_and_memory_have_limits_too(ask, changes, code):
    with pytest.raises(Refusal) as refused:
        gates.check_quota("vision", limits(**changes), Usage(cpu_millis=500, memory_mib=500), ask)
    assert refused.value.code == code


def test_a_suspended_workspace_starts_nothing():
    with pytest.raises(gates.WorkspaceSuspended) as refused:
        gates.check_not_suspended("vision", True)
    assert refused.value.status == 403

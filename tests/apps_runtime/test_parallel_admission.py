"""Many deploys at the same moment: quota and devices are never given twice."""

from __future__ import annotations

from collections import Counter

import pytest

from apps_runtime import lifecycle
from apps_runtime.models import App, Deployment, DeviceLease
from gpus.models import GpuDevice
from refusals import Refusal
from tests.factories import make_app, make_device, make_node, make_plan, make_workspace
from tests.parallel import in_parallel
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases, pytest.mark.usefixtures("wakes")]

CALLERS = 32


def try_deploy(app: App) -> str:
    try:
        lifecycle.request_deploy(app, actor=PLATFORM)
    except Refusal as refusal:
        return refusal.code
    return "admitted"


def held_by_the_books() -> bool:
    return all(device.held == device.leases.count() for device in GpuDevice.objects.all())


def test_32_deploys_against_a_limit_of_five_units_admit_exactly_five():
    workspace = make_workspace(plan=make_plan(gpu_limit=5))
    node = make_node()
    for _ in range(40):
        make_device(node)
    apps = [make_app(workspace, gpu=1) for _ in range(CALLERS)]

    outcomes = Counter(in_parallel(try_deploy, apps))

    assert outcomes == {"admitted": 5, "gpu_quota_exceeded": CALLERS - 5}
    assert DeviceLease.objects.count() == Deployment.objects.live().count() == 5
    assert held_by_the_books()


def test_32_deploys_against_three_dedicated_cards_admit_exactly_three():
    plan = make_plan(gpu_limit=-1)
    node = make_node()
    for _ in range(3):
        make_device(node)
    apps = [make_app(make_workspace(plan=plan), gpu=1) for _ in range(CALLERS)]

    outcomes = Counter(in_parallel(try_deploy, apps))

    assert outcomes == {"admitted": 3, "gpu_no_device": CALLERS - 3}
    assert DeviceLease.objects.count() == 3
    assert DeviceLease.objects.values("device").distinct().count() == 3
    assert held_by_the_books()


def test_a_shared_card_takes_exactly_its_shares():
    node = make_node()
    make_device(node, mode="shared", max_shares=4)
    apps = [make_app(make_workspace(), gpu=1) for _ in range(12)]

    outcomes = Counter(in_parallel(try_deploy, apps))

    assert outcomes == {"admitted": 4, "gpu_no_device": 8}
    assert sorted(DeviceLease.objects.values_list("slot", flat=True)) == [1, 2, 3, 4]


def test_deploys_that_need_several_nodes_locks_do_not_deadlock():
    for _ in range(4):
        node = make_node()
        for _ in range(4):
            make_device(node)
    apps = [make_app(make_workspace(), gpu=1 + number % 4) for number in range(16)]

    outcomes = in_parallel(try_deploy, apps)

    assert set(outcomes) <= {"admitted", "gpu_no_device"}
    assert held_by_the_books()
    units = sum(Deployment.objects.values_list("gpu_units", flat=True))
    assert DeviceLease.objects.count() == units <= 16


def test_two_deploys_of_one_app_at_once_hold_its_units_once():
    workspace = make_workspace(plan=make_plan(gpu_limit=1))
    make_device(make_node())
    app = make_app(workspace, gpu=1)

    outcomes = in_parallel(try_deploy, [app, app])

    assert outcomes == ["admitted", "admitted"]
    assert DeviceLease.objects.count() == 1
    assert sorted(app.deployments.values_list("number", flat=True)) == [1, 2]

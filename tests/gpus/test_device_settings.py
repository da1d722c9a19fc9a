"""What operators may decide about a device."""

from __future__ import annotations

import pytest

from gpus.devices import DeviceDuplicate, DeviceHeld, DeviceIsMigParent, set_device, set_devices
from gpus.models import GpuDevice
from refusals import Malformed
from tests.factories import make_device, make_node
from tests.parallel import in_parallel
from workspaces.audit import Actor
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db


def test_a_new_device_is_enabled_and_shared_by_the_operator_with_a_trace(operator: Actor):
    device = make_device(make_node(), enabled=False)
    changed = set_device(device, enabled=True, mode="shared", max_shares=4, actor=operator)
    assert (changed.enabled, changed.mode, changed.max_shares, changed.free_slots) == (True, "shared", 4, 4)
    event = AuditEvent.objects.get()
    assert (event.verb, event.actor_name) == ("device.set", "operator")
    assert event.before == {"enabled": False, "mode": "dedicated", "max_shares": 1}
    assert event.after == {"enabled": True, "mode": "shared", "max_shares": 4}


def test_a_change_of_nothing_leaves_no_trace(operator: Actor):
    device = make_device(make_node(), enabled=True)
    set_device(device, enabled=True, mode="dedicated", actor=operator)
    assert AuditEvent.objects.count() == 0


@pytest.mark.parametrize("change", [{"mode": "dedicated"}, {"max_shares": 1}, {"max_shares": 8}])
def test_mode_and_shares_stay_while_containers_hold_the_device(change: dict[str, object], operator: Actor):
    device = make_device(make_node("gpu-1"), mode="shared", max_shares=4, held=2)
    with pytest.raises(DeviceHeld, match=r"gpu-1 is held by 2 container") as refused:
        set_device(device, actor=operator, **change)  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.facts) == (409, {"held": 2})
    device.refresh_from_db()
    assert (device.mode, device.max_shares) == ("shared", 4)


def test_a_held_device_may_be_disabled_and_its_holders_keep_it(operator: Actor):
    device = make_device(make_node(), enabled=True, held=1)
    changed = set_device(device, enabled=False, actor=operator)
    assert (changed.enabled, changed.held) == (False, 1)


def test_naming_the_values_a_held_device_has_is_no_change(operator: Actor):
    device = make_device(make_node(), mode="shared", max_shares=4, held=2, enabled=False)
    assert set_device(device, enabled=True, mode="shared", max_shares=4, actor=operator).enabled


def test_a_refused_change_changes_nothing_else_of_the_request(operator: Actor):
    device = make_device(make_node(), mode="shared", max_shares=4, held=1, enabled=False)
    with pytest.raises(DeviceHeld):
        set_device(device, enabled=True, max_shares=2, actor=operator)
    device.refresh_from_db()
    assert not device.enabled


def test_a_uuid_is_enabled_on_one_node_only(operator: Actor):
    first = make_device(make_node("gpu-1"), enabled=True)
    second = make_device(make_node("gpu-2"), uuid=first.uuid, enabled=False)
    with pytest.raises(DeviceDuplicate) as refused:
        set_device(second, enabled=True, actor=operator)
    assert (refused.value.code, refused.value.status) == ("device_duplicate", 409)
    set_device(first, enabled=False, actor=operator)
    assert set_device(second, enabled=True, actor=operator).enabled


def test_other_settings_of_a_duplicate_may_change(operator: Actor):
    first = make_device(make_node("gpu-1"), enabled=True)
    second = make_device(make_node("gpu-2"), uuid=first.uuid, enabled=False)
    assert set_device(second, mode="shared", max_shares=2, actor=operator).max_shares == 2


def test_a_card_with_mig_on_is_not_enabled_and_its_instances_are(operator: Actor):
    node = make_node("gpu-1")
    card = make_device(node, mig_enabled=True, enabled=False)
    instance = make_device(node, uuid="MIG-00000000-1111", parent=card, mig_profile="1g.5gb", enabled=False)
    with pytest.raises(DeviceIsMigParent, match="Enable those instead"):
        set_device(card, enabled=True, actor=operator)
    assert set_device(instance, enabled=True, actor=operator).offered


@pytest.mark.parametrize(
    "trouble", [{"presence": "missing"}, {"presence": "unreadable"}, {"health": "unhealthy", "health_reason": "ECC"}]
)
def test_a_device_in_trouble_may_be_enabled_and_is_offered_once_it_is_well(trouble: dict[str, str], operator: Actor):
    device = make_device(make_node(), enabled=False, **trouble)
    changed = set_device(device, enabled=True, actor=operator)
    assert (changed.enabled, changed.offered) == (True, False)


@pytest.mark.parametrize("shares", [0, -1, 65])
def test_shares_out_of_range_are_refused(shares: int, operator: Actor):
    with pytest.raises(Malformed, match="1 to 64"):
        set_device(make_device(make_node()), max_shares=shares, actor=operator)


def test_an_unknown_mode_is_refused(operator: Actor):
    with pytest.raises(Malformed, match="dedicated or shared"):
        set_device(make_device(make_node()), mode="exclusive", actor=operator)


def test_a_change_to_many_devices_tells_which_were_refused_and_makes_the_others(operator: Actor):
    node = make_node("gpu-1")
    free, held, mig = make_device(node), make_device(node, held=1), make_device(node, mig_enabled=True, enabled=False)
    outcome = set_devices([free, held, mig], enabled=True, mode="shared", max_shares=2, actor=operator)
    assert outcome.set == [free]
    assert [(device, refusal.code) for device, refusal in outcome.refused] == [
        (held, "device_held"),
        (mig, "device_mig_parent"),
    ]
    assert AuditEvent.objects.count() == 1


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_two_nodes_that_enable_the_same_uuid_at_once_one_gets_it(operator: Actor):
    twins = [make_device(make_node(), uuid="GPU-5a1b0c9e-0000-4000-8000-00000000000a", enabled=False) for _ in range(4)]
    outcomes = in_parallel(lambda device: set_devices([device], enabled=True, actor=operator), twins)
    assert sorted(len(outcome.set) for outcome in outcomes) == [0, 0, 0, 1]
    assert GpuDevice.objects.filter(enabled=True).count() == 1

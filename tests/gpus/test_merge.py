"""Readings of a probe into the rows of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps_runtime.models import Deployment, DeviceLease
from gpus.merge import MergeResult, mark_all_missing, merge
from gpus.models import GpuDevice, Node
from gpus.readings import DeviceReading, ProbeReport
from tests.factories import make_app, make_device, make_node, make_workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def node() -> Node:
    return make_node("gpu-1")


def uuid_of(number: int) -> str:
    return f"GPU-5a1b0c9e-0000-4000-8000-{number:012d}"


def card(number: int, **fields) -> DeviceReading:
    defaults: dict[str, Any] = {
        "model": "NVIDIA L4",
        "memory_mib": 23034,
        "index": number,
        "minor_number": number,
        "pci_bus_id": f"00000000:{number:02X}:00.0",
        "utilization_percent": 0,
        "memory_used_mib": 1,
    }
    return DeviceReading(uuid_of(number), **(defaults | fields))


def instance(number: int, parent: int, **fields) -> DeviceReading:
    return DeviceReading(
        f"MIG-{number:08d}-0000-4000-8000-000000000000",
        "NVIDIA A100 MIG 1g.5gb",
        parent_uuid=uuid_of(parent),
        mig_profile="1g.5gb",
        index=number,
        **fields,
    )


def read(node: Node, *readings: DeviceReading, **fields) -> MergeResult:
    with transaction.atomic():
        return merge(node.pk, ProbeReport(devices=readings, **fields))


def row(number: int) -> GpuDevice:
    return GpuDevice.objects.get(uuid=uuid_of(number))


def hold(device: GpuDevice) -> DeviceLease:
    app = make_app(make_workspace())
    deployment = Deployment.objects.create(
        app=app, workspace=app.workspace, number=1, node=device.node, spec={}, state="running"
    )
    GpuDevice.objects.filter(pk=device.pk).update(held=1)
    return DeviceLease.objects.create(deployment=deployment, device=device, slot=0)


def test_new_cards_arrive_disabled_and_dedicated(node):
    result = read(node, card(1), card(2))
    assert (result.added, result.changed, result.vanished) == (2, 0, 0)
    assert list(node.devices.values_list("enabled", "mode", "held")) == [(False, "dedicated", 0)] * 2


def test_all_that_was_read_is_kept(node):
    read(node, card(3, model="Tesla T4", memory_mib=15360, minor_number=7, utilization_percent=12))
    kept = row(3)
    assert (kept.vendor, kept.model, kept.memory_mib, kept.index, kept.minor_number) == (
        "nvidia",
        "Tesla T4",
        15360,
        3,
        7,
    )
    assert (kept.pci_bus_id, kept.utilization_percent, kept.memory_used_mib) == ("00000000:03:00.0", 12, 1)
    assert kept.last_seen_at is not None


def test_unified_memory_is_kept_as_unknown_and_never_as_zero(node):
    read(node, card(1, model="NVIDIA GB10", memory_mib=None, memory_note="unified", memory_used_mib=None))
    kept = row(1)
    assert (kept.memory_mib, kept.memory_note, kept.presence, kept.health) == (None, "unified", "present", "ok")


@pytest.mark.both_databases
def test_what_the_operator_decided_survives_every_change_of_the_card(node):
    read(node, card(1))
    GpuDevice.objects.update(enabled=True, mode="shared", max_shares=6)
    read(node, card(1, index=4, model="NVIDIA L4 Rev B", health_reason="requires a reset"))
    read(node)
    read(node, card(1))
    kept = row(1)
    assert (kept.enabled, kept.mode, kept.max_shares) == (True, "shared", 6)
    assert kept.offered


def test_a_vanished_card_is_missing_keeps_its_lease_and_is_never_offered(node):
    read(node, card(1), card(2))
    GpuDevice.objects.update(enabled=True)
    lease = hold(row(2))
    result = read(node, card(1))
    assert result.vanished == 1
    gone = row(2)
    assert (gone.presence, gone.enabled, gone.held) == ("missing", True, 1)
    assert (gone.utilization_percent, gone.memory_used_mib) == (None, None)
    assert list(gone.leases.all()) == [lease]
    assert list(GpuDevice.objects.offered()) == [row(1)]


def test_a_card_that_comes_back_is_offered_as_before(node):
    read(node, card(1))
    GpuDevice.objects.update(enabled=True)
    read(node)
    assert not row(1).offered
    result = read(node, card(1))
    assert (result.added, result.changed) == (0, 1)
    assert row(1).offered


def test_a_card_that_stays_away_vanishes_once(node):
    read(node, card(1))
    assert read(node).vanished == 1
    assert read(node).vanished == 0


def test_a_swapped_card_is_a_new_disabled_row_and_the_old_one_is_missing(node):
    read(node, card(1))
    GpuDevice.objects.update(enabled=True)
    result = read(node, card(2, index=1, minor_number=1, pci_bus_id="00000000:01:00.0"))
    assert (result.added, result.vanished) == (1, 1)
    assert (row(1).presence, row(1).enabled) == ("missing", True)
    assert (row(2).presence, row(2).enabled) == ("present", False)


def test_indexes_that_shift_at_a_reboot_move_with_the_card_and_not_with_its_holder(node):
    read(node, card(1, index=0), card(2, index=1))
    lease = hold(row(2))
    read(node, card(2, index=0, minor_number=5))
    moved = row(2)
    assert (moved.index, moved.minor_number) == (0, 5)
    lease.refresh_from_db()
    assert lease.device.uuid == uuid_of(2)


def test_index_and_minor_number_are_columns_of_their_own(node):
    read(node, card(1, index=0, minor_number=3), card(2, index=1, minor_number=2))
    assert [(row(n).index, row(n).minor_number) for n in (1, 2)] == [(0, 3), (1, 2)]


def test_a_card_in_trouble_is_unhealthy_with_the_reason_until_it_is_well(node):
    read(node, card(1))
    GpuDevice.objects.update(enabled=True)
    read(node, card(1, health_reason="uncorrectable ECC errors"))
    assert (row(1).health, row(1).health_reason, row(1).offered) == ("unhealthy", "uncorrectable ECC errors", False)
    read(node, card(1))
    assert (row(1).health, row(1).health_reason, row(1).offered) == ("ok", "", True)


def test_mig_instances_are_devices_of_their_card_which_is_not_itself_offered(node):
    read(node, card(1, mig_enabled=True), instance(0, 1), instance(1, 1))
    GpuDevice.objects.update(enabled=True)
    parent = row(1)
    assert parent.mig_enabled
    assert not parent.offered
    assert [device.mig_profile for device in parent.instances.all()] == ["1g.5gb"] * 2
    assert set(GpuDevice.objects.offered()) == set(parent.instances.all())


def test_an_instance_finds_a_card_that_is_listed_after_it(node):
    read(node, instance(0, 1), card(1, mig_enabled=True))
    assert row(1).instances.count() == 1


def test_an_instance_without_its_card_gets_it_back(node):
    read(node, card(1, mig_enabled=True), instance(0, 1))
    GpuDevice.objects.update(parent=None)
    read(node, card(1, mig_enabled=True), instance(0, 1))
    assert row(1).instances.count() == 1


def test_mig_turned_off_makes_the_instances_missing_and_the_card_offered(node):
    read(node, card(1, mig_enabled=True), instance(0, 1))
    GpuDevice.objects.update(enabled=True)
    read(node, card(1))
    assert row(1).offered
    assert row(1).instances.get().presence == "missing"


def test_a_card_the_driver_counts_and_cannot_show_is_unreadable_and_not_missing(node):
    read(node, card(1), card(2))
    GpuDevice.objects.update(enabled=True)
    read(node, card(1), attached=2)
    assert (row(2).presence, row(2).offered) == ("unreadable", False)
    read(node, card(1), attached=1)
    assert row(2).presence == "missing"


def test_a_card_that_was_away_before_is_not_the_one_that_cannot_be_shown(node):
    read(node, card(1), card(2), card(3))
    read(node, card(1), card(2))
    read(node, card(1), attached=2)
    assert [row(n).presence for n in (1, 2, 3)] == ["present", "unreadable", "missing"]


def test_what_a_partial_reading_does_not_show_is_unreadable_and_not_missing(node):
    read(node, card(1), card(2))
    read(node, card(1), partial=True)
    assert row(2).presence == "unreadable"


def test_no_card_at_all_makes_every_row_missing_and_keeps_it(node):
    read(node, card(1), card(2))
    lease = hold(row(1))
    with transaction.atomic():
        assert mark_all_missing(node.pk) == 2
    assert set(node.devices.values_list("presence", flat=True)) == {"missing"}
    assert DeviceLease.objects.get() == lease
    with transaction.atomic():
        assert mark_all_missing(node.pk) == 0


def test_another_nodes_devices_are_not_touched(node):
    other = make_device(make_node("gpu-2"))
    before = GpuDevice.objects.filter(pk=other.pk).values().get()
    read(node, card(1))
    read(node)
    with transaction.atomic():
        mark_all_missing(node.pk)
    assert GpuDevice.objects.filter(pk=other.pk).values().get() == before


def test_a_uuid_on_two_nodes_is_told_with_the_other_nodes_name(node):
    make_device(make_node("gpu-2"), uuid=uuid_of(1))
    result = read(node, card(1), card(2))
    assert result.warnings == (f"{uuid_of(1)} is also on node gpu-2: is it the same host twice?",)
    assert GpuDevice.objects.filter(uuid=uuid_of(1)).count() == 2


def test_an_unchanged_card_has_only_its_gauges_written(node):
    read(node, card(1), card(2))
    before = {device.uuid: device for device in node.devices.all()}
    result = read(node, card(1, utilization_percent=80, memory_used_mib=900), card(2, index=9))
    assert result.changed == 1
    same, moved = row(1), row(2)
    assert (same.utilization_percent, same.memory_used_mib) == (80, 900)
    assert same.updated_at == before[same.uuid].updated_at
    assert same.last_seen_at > before[same.uuid].last_seen_at
    assert moved.updated_at > before[moved.uuid].updated_at


def queries_of(node: Node, *readings: DeviceReading) -> int:
    with (
        transaction.atomic(),
        CaptureQueriesContext(
            connection,
        ) as captured,
    ):
        merge(node.pk, ProbeReport(devices=readings))
    return len(captured)


@pytest.mark.both_databases
def test_a_merge_takes_the_same_few_queries_for_two_cards_and_for_sixteen(node):
    other = make_node("gpu-2")

    def rounds(where: Node, first: int, count: int) -> list[int]:
        cards = [card(number) for number in range(first, first + count)]
        # Arrive, stay, all change, half vanish.
        moved = [replace(reading, minor_number=90) for reading in cards]
        return [queries_of(where, *each) for each in (cards, cards, moved, moved[: count // 2])]

    few, many = rounds(node, 0, 2), rounds(other, 100, 16)
    assert few == many
    assert max(many) <= 6

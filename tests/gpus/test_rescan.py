"""Asking for probes: the regular round, the worker's task, and the command."""

from __future__ import annotations

import io
import threading
from datetime import timedelta
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving
from gpus import claims, tasks
from gpus.inventory_rounds import take_due_nodes
from gpus.models import GpuDevice, Node
from tests.factories import make_node
from tests.parallel import in_parallel

PROBE = "gpus.tasks.probe_node"

pytestmark = pytest.mark.django_db(transaction=True)


def minutes_ago(minutes: float):
    return timezone.now() - timedelta(minutes=minutes)


# --- The round ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _half_hourly(settings) -> None:
    settings.MIABI_GPU_INVENTORY_MINUTES = 30


def test_a_round_sends_one_message_a_node(sent):
    nodes = [make_node(), make_node()]
    tasks.start_inventory()
    assert sent == [(PROBE, (node.pk,)) for node in nodes]


def test_a_message_that_is_not_taken_before_the_next_round_expires(monkeypatch):
    make_node()
    options: list[dict[str, object]] = []
    monkeypatch.setattr(tasks.probe_node, "apply_async", lambda args, **given: options.append(given))
    tasks.start_inventory()
    assert options == [{"expires": 1800}]


def test_a_second_beat_doubles_nothing(sent):
    make_node()
    tasks.start_inventory()
    tasks.start_inventory()
    assert len(sent) == 1


@pytest.mark.parametrize(("age", "due"), [(12, False), (19, False), (21, True), (30, True), (600, True)])
def test_a_node_is_due_two_thirds_of_the_interval_after_the_last_request(age: int, due: bool):
    node = make_node(probe_requested_at=minutes_ago(age))
    assert take_due_nodes() == ([node.pk] if due else [])


@pytest.mark.parametrize("distance", [1, 9, 10, 15, 20, 29])
def test_two_beats_at_any_distance_probe_a_node_once_an_interval(distance: int, monkeypatch):
    make_node()
    start = timezone.now()
    ticks = sorted([*range(0, 300, 30), *range(distance, 300, 30)])
    taken = []
    for minute in ticks:
        monkeypatch.setattr(timezone, "now", lambda minute=minute: start + timedelta(minutes=minute))
        taken += [minute for _ in take_due_nodes()]
    first, *others = [after - before for before, after in pairwise(taken)]
    assert 20 <= first <= 30
    assert set(others) == {30}


@pytest.mark.both_databases
def test_beats_that_tick_at_the_same_moment_share_the_nodes_out(monkeypatch):
    nodes = [make_node() for _ in range(20)]
    together, free_now = threading.Barrier(4), claims.free_now

    def at_once():
        # The connection is open by now, so that all look for due nodes before any has taken one.
        Node.objects.exists()
        together.wait(30)
        return free_now()

    monkeypatch.setattr(claims, "free_now", at_once)
    taken = in_parallel(lambda _: take_due_nodes(), range(4))
    assert sorted(pk for part in taken for pk in part) == [node.pk for node in nodes]


def test_a_node_that_is_being_probed_is_left_out():
    busy, idle = make_node(), make_node()
    claims.take(Node, busy.pk)
    assert take_due_nodes() == [idle.pk]


def test_a_node_whose_probe_died_is_due_again():
    node = make_node()
    claims.take(Node, node.pk)
    Node.objects.update(claim_expires_at=minutes_ago(1))
    assert take_due_nodes() == [node.pk]


def test_with_gpus_switched_off_no_message_is_sent(sent, settings):
    settings.MIABI_GPU_ENABLED = False
    make_node()
    tasks.start_inventory()
    assert sent == []


# --- The task ----------------------------------------------------------------------------


def test_the_task_probes_the_node(node: Node):
    tasks.probe_node(node.pk)
    assert node.devices.count() == 4


def test_the_task_of_a_removed_node_does_nothing(node: Node):
    tasks.probe_node(node.pk + 1000)
    assert not GpuDevice.objects.exists()


# --- The command -------------------------------------------------------------------------


def rescan(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("gpu_rescan", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def failing_rescan(*arguments: str) -> tuple[str, str, CommandError]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as failed:
        call_command("gpu_rescan", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), failed.value


def test_without_wait_the_worker_is_asked_for_every_node(sent):
    nodes = [make_node("a"), make_node("b")]
    out, _ = rescan()
    assert sent == [(PROBE, (node.pk,)) for node in nodes]
    assert "2 probe(s)" in out


def test_one_node_is_asked_for_by_its_name(sent):
    make_node("a")
    wanted = make_node("b")
    rescan("--node", "b")
    assert sent == [(PROBE, (wanted.pk,))]


def test_an_unknown_name_is_an_error_that_names_it(sent):
    make_node("a")
    _, _, error = failing_rescan("--node", "nope")
    assert "nope" in str(error)
    assert error.returncode == 1
    assert sent == []


def test_an_empty_name_is_not_every_node(sent):
    make_node("a")
    failing_rescan("--node", "")
    assert sent == []


def test_all_and_a_name_exclude_each_other(sent):
    make_node("a")
    with pytest.raises(CommandError, match="not allowed with"):
        call_command("gpu_rescan", "--node", "a", "--all")


def test_without_nodes_it_says_so():
    out, _ = rescan("--wait")
    assert "No nodes" in out


def test_with_gpus_switched_off_it_says_which_setting(sent, settings):
    settings.MIABI_GPU_ENABLED = False
    make_node("a")
    for arguments in ((), ("--wait",)):
        _, err, error = failing_rescan(*arguments)
        assert "MIABI_GPU_ENABLED" in err + str(error)
    assert sent == []


@pytest.mark.both_databases
def test_wait_probes_at_once_and_prints_a_table(node: Node):
    out, err = rescan("--wait")
    heading, line = out.splitlines()
    assert heading.split() == ["NODE", "RESULT", "DEVICES", "NEW", "VANISHED", "SECONDS"]
    assert line.split()[:5] == ["gpu-1", "ok", "4", "4", "0"]
    assert err == ""


def test_wait_with_a_failed_probe_says_what_to_do_and_ends_with_an_error(
    node: Node, host: VirtualNode, serving: Serving
):
    serving.call(lambda: setattr(host, "toolkit", False))
    make_node("gpu-0", address=node.address.replace("host-1", "nowhere"))
    out, err, error = failing_rescan("--wait", "--all")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["gpu-0", "unreachable"],
        ["gpu-1", "toolkit_missing"],
    ]
    assert "gpu-1: The engine has no runtime called nvidia" in err
    assert "nvidia-ctk runtime configure" in err
    assert "2 of 2" in str(error)


def test_wait_shows_how_many_cards_vanished_when_none_is_left(node: Node, host: VirtualNode, serving: Serving):
    rescan("--wait")
    serving.call(host.cards.clear)
    out, _, _ = failing_rescan("--wait", "--node", "gpu-1")
    assert out.splitlines()[1].split()[:5] == ["gpu-1", "no_devices", "-", "-", "4"]

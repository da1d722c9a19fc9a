"""A probe of a node from the claim to the rows, against a simulated host over its socket."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from engines.virtual.cards import Card, MigInstance
from engines.virtual.faults import Fault
from engines.virtual.node import VirtualNode
from engines.virtual.serving import Serving
from gpus import claims, inventory
from gpus.inventory import probe_node
from gpus.models import GpuDevice, Node
from gpus.probing import probe
from tests.factories import make_node
from tests.parallel import in_parallel

pytestmark = pytest.mark.django_db(transaction=True)

MISMATCH = "initialization error: nvml error: driver/library version mismatch"


def fail_with(serving: Serving, host: VirtualNode, **fault) -> None:
    serving.call(lambda: host.faults.add(Fault(**fault)))


def good_probe(node: Node) -> list[GpuDevice]:
    """The node after a good probe, with every card enabled."""
    outcome = probe_node(node.pk)
    assert outcome.code == "", outcome
    node.devices.update(enabled=True)
    node.refresh_from_db()
    return list(node.devices.all())


def state_of(node: Node) -> list[dict[str, object]]:
    return [dict(row) for row in node.devices.order_by("pk").values()]


@pytest.mark.both_databases
def test_a_good_probe_finds_the_cards_and_says_that_the_node_is_capable(node: Node, host: VirtualNode):
    outcome = probe_node(node.pk)
    assert (outcome.ran, outcome.code, outcome.devices, outcome.added) == (True, "", 4, 4)
    assert list(node.devices.values_list("uuid", flat=True)) == [card.uuid for card in host.cards]
    node.refresh_from_db()
    assert (node.gpu_capable, node.reachable, node.last_probe_ok, node.probe_failures) == (True, True, True, 0)
    assert node.last_good_probe_at == node.last_probe_at == node.last_seen_at
    assert not node.inventory_stale


def test_the_facts_of_the_node_are_kept_with_the_lights(node: Node):
    probe_node(node.pk)
    node.refresh_from_db()
    facts = node.facts
    assert (facts["engine_version"], facts["api_version"], facts["min_api_version"]) == (
        "28.0.0-virtual",
        "1.47",
        "1.24",
    )
    assert (facts["runtimes"], facts["default_runtime"]) == (["nvidia", "runc"], "runc")
    assert facts["driver_version"] == "570.124.04"
    assert {light["code"]: light["status"] for light in facts["lights"]}["toolkit"] == "ok"
    assert facts["warnings"] == []


def test_the_stated_toolkit_version_is_recorded_and_held_against_the_floor(node: Node, settings):
    settings.MIABI_TOOLKIT_FLOOR = "1.17.8"
    Node.objects.filter(pk=node.pk).update(labels={"nvidia.com/toolkit-version": "1.16.1"})
    probe_node(node.pk)
    node.refresh_from_db()
    assert node.facts["toolkit_version"] == "1.16.1"
    (light,) = [light for light in node.facts["lights"] if light["code"] == "toolkit_version"]
    assert light["status"] == "warn"


def test_nothing_is_probed_while_gpus_are_switched_off(node: Node, host: VirtualNode, settings):
    settings.MIABI_GPU_ENABLED = False
    outcome = probe_node(node.pk)
    assert (outcome.ran, outcome.code) == (False, "gpu_disabled")
    node.refresh_from_db()
    assert (node.last_probe_at, node.claim_token, node.reachable) == (None, None, None)
    assert host.images == set()


def test_the_nodes_own_probe_image_comes_before_the_fleets(node: Node, host: VirtualNode, settings):
    settings.MIABI_GPU_PROBE_IMAGE = "registry.example.com/fleet/probe:1"
    Node.objects.filter(pk=node.pk).update(probe_image="registry.example.com/own/probe:2")
    probe_node(node.pk)
    assert host.images == {"registry.example.com/own/probe:2"}


def test_the_probe_image_is_pulled_only_where_it_is_missing(node: Node, host: VirtualNode, serving: Serving):
    good_probe(node)
    fail_with(serving, host, how="error", operation="pull", status=500, message="no such host")
    assert probe_node(node.pk).code == ""


def test_an_unhealthy_card_is_not_offered(node: Node, host: VirtualNode, serving: Serving):
    good_probe(node)
    serving.call(lambda: host.cards.__setitem__(0, replace(host.cards[0], reset_required=True)))
    good_probe(node)
    assert [device.uuid for device in GpuDevice.objects.offered()] == [card.uuid for card in host.cards[1:]]


def test_mig_instances_come_with_the_uuids_of_the_list(node: Node, host: VirtualNode, serving: Serving):
    uuids = ["MIG-11111111-0000-4000-8000-000000000001", "MIG-11111111-0000-4000-8000-000000000002"]
    mig = tuple(MigInstance(uuid) for uuid in uuids)
    serving.call(lambda: host.cards.__setitem__(0, replace(host.cards[0], mig=mig)))
    good_probe(node)
    card = GpuDevice.objects.get(uuid=host.cards[0].uuid)
    assert card.mig_enabled
    assert [device.uuid for device in card.instances.order_by("index")] == uuids


def test_vanished_cards_are_missing_and_come_back(node: Node, host: VirtualNode, serving: Serving):
    cards = list(host.cards)
    good_probe(node)
    serving.call(lambda: setattr(host, "cards", cards[:2]))
    assert probe_node(node.pk).vanished == 2
    assert list(node.devices.order_by("pk").values_list("presence", flat=True)) == ["present"] * 2 + ["missing"] * 2
    serving.call(lambda: setattr(host, "cards", cards))
    assert probe_node(node.pk).added == 0
    assert GpuDevice.objects.offered().count() == 4


def test_a_card_added_to_a_known_node_is_found_by_a_rescan(node: Node, host: VirtualNode, serving: Serving):
    good_probe(node)
    serving.call(lambda: host.cards.append(Card("GPU-99999999-0000-4000-8000-000000000009", "Tesla T4", 15360)))
    assert probe_node(node.pk).added == 1


# --- What goes wrong ---------------------------------------------------------------------
#   code, what the host does, whether the node stays capable


def no_toolkit(host: VirtualNode) -> None:
    host.toolkit = False


def driver_mismatch(host: VirtualNode) -> None:
    host.driver_failure = MISMATCH


def driver_missing(host: VirtualNode) -> None:
    host.driver_failure = "initialization error: nvml error: driver not loaded"


def mismatch_inside(host: VirtualNode) -> None:
    host.smi_failure = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
    host.smi_exit_code = 18


def output_of_something_else(host: VirtualNode) -> None:
    host.smi_failure, host.smi_exit_code = "Segmentation fault\n", 139


def hangs_in_wait(host: VirtualNode) -> None:
    host.faults.add(Fault("hang", "wait"))


def hangs_in_start(host: VirtualNode) -> None:
    host.faults.add(Fault("hang", "start"))


def desktop(host: VirtualNode) -> None:
    host.operating_system = "Docker Desktop"


def no_image(host: VirtualNode) -> None:
    host.any_image = False
    host.images.clear()


def pull_hangs(host: VirtualNode) -> None:
    host.images.clear()
    host.faults.add(Fault("hang", "pull"))


def silent(host: VirtualNode) -> None:
    host.faults.add(Fault("hang"))


def connections_drop(host: VirtualNode) -> None:
    host.faults.add(Fault("drop"))


def create_drops(host: VirtualNode) -> None:
    host.faults.add(Fault("drop", "create"))


def refuses(host: VirtualNode) -> None:
    host.faults.add(Fault("error", "create", status=400, message="invalid host config"))


FAILURES = [
    pytest.param("toolkit_missing", no_toolkit, False, id="no toolkit"),
    pytest.param("driver_mismatch", driver_mismatch, False, id="driver mismatch"),
    pytest.param("driver_mismatch", mismatch_inside, False, id="driver mismatch told by nvidia-smi"),
    pytest.param("unreadable", output_of_something_else, True, id="unreadable"),
    pytest.param("driver_missing", driver_missing, False, id="driver not loaded"),
    pytest.param("hung", hangs_in_wait, False, id="nvidia-smi never returns"),
    pytest.param("hung", hangs_in_start, False, id="toolkit never returns"),
    pytest.param("no_isolation", desktop, False, id="desktop"),
    pytest.param("image_unavailable", no_image, True, id="image gone"),
    pytest.param("image_unavailable", pull_hangs, True, id="pull hangs"),
    pytest.param("unreachable", silent, True, id="no answer"),
    pytest.param("unreachable", connections_drop, True, id="connections drop"),
    pytest.param("unreachable", create_drops, True, id="connection drops in between"),
    pytest.param("engine_refused", refuses, True, id="refused"),
]


@pytest.mark.parametrize(("code", "break_it", "capable"), FAILURES)
def test_a_failed_probe_says_why_and_changes_no_device(
    code: str, break_it, capable: bool, node: Node, host: VirtualNode, serving: Serving, settings
):
    settings.MIABI_PULL_TIMEOUT_SECONDS = 1.0
    good_probe(node)
    before = state_of(node)
    serving.call(lambda: break_it(host))
    outcome = probe_node(node.pk)
    assert (outcome.ran, outcome.code) == (True, code)
    assert outcome.sentence
    assert outcome.hint
    assert state_of(node) == before
    good_at = node.last_good_probe_at
    node.refresh_from_db()
    assert (node.last_probe_ok, node.last_probe_error, node.probe_failures) == (False, code, 1)
    assert outcome.sentence in node.last_probe_detail
    assert outcome.hint in node.last_probe_detail
    assert node.inventory_stale
    assert node.last_good_probe_at == good_at
    assert node.gpu_capable is capable
    assert node.reachable is (code != "unreachable")
    assert node.claim_token is None
    assert node.facts["driver_version"] == "570.124.04"


@pytest.mark.parametrize(("code", "break_it", "capable"), FAILURES)
def test_no_probe_leaves_a_container_behind(
    code: str, break_it, capable: bool, node: Node, host: VirtualNode, serving: Serving, settings
):
    settings.MIABI_PULL_TIMEOUT_SECONDS = 1.0
    good_probe(node)
    serving.call(lambda: break_it(host))
    probe_node(node.pk)
    assert host.containers == {}


def test_a_driver_mismatch_tells_to_reboot(node: Node, host: VirtualNode, serving: Serving):
    serving.call(lambda: driver_mismatch(host))
    assert "Reboot" in probe_node(node.pk).hint
    node.refresh_from_db()
    assert "driver/library version mismatch" in node.last_probe_detail


def test_a_missing_toolkit_names_the_runtime_and_the_way_to_get_it(node: Node, host: VirtualNode, serving: Serving):
    serving.call(lambda: no_toolkit(host))
    outcome = probe_node(node.pk)
    assert "no runtime called nvidia" in outcome.sentence
    assert "nvidia-ctk runtime configure" in outcome.hint


def test_no_card_reported_makes_the_known_ones_missing_and_the_node_incapable(
    node: Node, host: VirtualNode, serving: Serving
):
    good_probe(node)
    serving.call(host.cards.clear)
    outcome = probe_node(node.pk)
    assert (outcome.code, outcome.vanished) == ("no_devices", 4)
    assert set(node.devices.values_list("presence", "enabled")) == {("missing", True)}
    node.refresh_from_db()
    assert (node.gpu_capable, node.last_probe_ok) == (False, False)


def test_a_node_comes_back_by_itself_with_the_next_good_probe(node: Node, host: VirtualNode, serving: Serving):
    good_probe(node)
    serving.call(lambda: driver_mismatch(host))
    for expected in (1, 2, 3):
        probe_node(node.pk)
        node.refresh_from_db()
        assert node.probe_failures == expected
    serving.call(lambda: setattr(host, "driver_failure", ""))
    probe_node(node.pk)
    node.refresh_from_db()
    assert (node.probe_failures, node.gpu_capable, node.last_probe_error, node.last_probe_detail) == (0, True, "", "")


def test_a_node_that_was_never_reached_is_unreachable_with_one_red_light(db):
    node = make_node("gpu-9", address="unix:///nowhere/at-all.sock", gpu_capable=False)
    assert probe_node(node.pk).code == "unreachable"
    node.refresh_from_db()
    assert (node.reachable, node.gpu_capable, node.last_seen_at) == (False, False, None)
    assert [(light["code"], light["status"]) for light in node.facts["lights"]] == [("reachable", "bad")]


def test_tls_material_that_is_none_is_a_failed_probe_and_no_crash(db):
    node = make_node("gpu-9", address="https://127.0.0.1:1", credentials={"ca_cert": "not PEM"})
    outcome = probe_node(node.pk)
    assert outcome.code == "unreachable"
    node.refresh_from_db()
    assert "TLS" in node.last_probe_detail


def test_the_same_host_registered_twice_is_told_on_the_second_node(node: Node):
    probe_node(node.pk)
    twin = make_node("gpu-2", address=node.address)
    assert probe_node(twin.pk).code == ""
    twin.refresh_from_db()
    assert len(twin.facts["warnings"]) == 4
    assert all("also on node gpu-1" in warning for warning in twin.facts["warnings"])


# --- Leftovers ---------------------------------------------------------------------------


def leave_behind(host: VirtualNode, serving: Serving, name: str, labels: dict[str, str]) -> None:
    def make() -> None:
        host.pull("left:1")
        host.start(host.create(name, {"Image": "left:1", "Cmd": ["sleep", "infinity"], "Labels": labels}))

    serving.call(make)


def names(host: VirtualNode) -> set[str]:
    return {container.name for container in host.containers.values()}


def test_what_killed_probes_left_behind_is_removed_first(node: Node, host: VirtualNode, serving: Serving):
    labels = inventory._request(node).labels
    removed_node = dict(labels) | {"io.miabi.node": "987654"}
    leave_behind(host, serving, inventory._request(node).container_name, dict(labels))
    leave_behind(host, serving, "another-name", dict(labels))
    leave_behind(host, serving, "of-a-node-that-is-gone", removed_node)
    assert probe_node(node.pk).code == ""
    assert host.containers == {}


def test_containers_of_others_are_not_swept(node: Node, host: VirtualNode, serving: Serving):
    labels = dict(inventory._request(node).labels)
    twin = make_node("gpu-2", address=node.address)
    leave_behind(host, serving, "foreign", {})
    leave_behind(host, serving, "other-installation", labels | {"io.miabi.installation": "another"})
    leave_behind(host, serving, "an-app", labels | {"io.miabi.role": "app"})
    leave_behind(host, serving, "twins-probe", labels | {"io.miabi.node": str(twin.pk)})
    probe_node(node.pk)
    assert names(host) == {"foreign", "other-installation", "an-app", "twins-probe"}


def test_a_probe_container_that_cannot_be_killed_means_a_hung_driver(node: Node, host: VirtualNode, serving: Serving):
    leave_behind(host, serving, "stuck", dict(inventory._request(node).labels))
    serving.call(lambda: setattr(host.faults, "unkillable", True))
    outcome = probe_node(node.pk)
    assert outcome.code == "hung"
    node.refresh_from_db()
    assert "cannot be removed" in node.last_probe_detail
    assert names(host) == {"stuck"}


# --- One at a time -----------------------------------------------------------------------


@pytest.fixture
def running(monkeypatch) -> dict[str, int]:
    """How many probes run now, and how many did at most at the same time."""
    count = {"now": 0, "most": 0, "all": 0}
    lock = threading.Lock()

    def counted(engine, request):
        with lock:
            count["now"] += 1
            count["all"] += 1
            count["most"] = max(count["most"], count["now"])
        try:
            time.sleep(0.2)
            return probe(engine, request)
        finally:
            with lock:
                count["now"] -= 1

    monkeypatch.setattr(inventory, "probe", counted)
    return count


@pytest.mark.both_databases
def test_probes_of_one_node_never_overlap(node: Node, running: dict[str, int]):
    outcomes = in_parallel(probe_node, [node.pk] * 8)
    assert running["most"] == 1
    assert sum(outcome.ran for outcome in outcomes) == running["all"]
    refused = [outcome for outcome in outcomes if not outcome.ran]
    assert len(refused) >= 6
    assert {outcome.code for outcome in refused} == {"probe_running"}
    assert GpuDevice.objects.count() == 4


@pytest.mark.both_databases
def test_probes_of_different_nodes_run_at_the_same_time(node: Node, running: dict[str, int]):
    nodes = [node, *(make_node(f"gpu-{number}", address=node.address) for number in (2, 3, 4))]
    outcomes = in_parallel(probe_node, [each.pk for each in nodes])
    assert [outcome.code for outcome in outcomes] == [""] * 4
    assert running["most"] > 1
    assert GpuDevice.objects.count() == 16


def test_a_hung_node_delays_no_other(node: Node, host: VirtualNode, serving: Serving, tmp_path, settings):
    settings.MIABI_PROBE_WAIT_SECONDS = 4.0
    healthy = make_node("gpu-2", address=node.address)
    # Only the first container that is waited for hangs.
    fail_with(serving, host, how="hang", operation="wait", times=1)
    ended: dict[int, float] = {}

    def timed(pk: int) -> str:
        code = probe_node(pk).code
        ended[pk] = time.monotonic()
        return code

    codes = in_parallel(timed, [node.pk, healthy.pk])
    assert sorted(codes) == ["", "hung"]
    hung, well = (node, healthy) if codes[0] else (healthy, node)
    assert ended[well.pk] < ended[hung.pk]


@pytest.mark.both_databases
def test_a_claim_that_ran_out_is_taken_over_and_the_late_result_dropped(node: Node, monkeypatch):
    """Worker A hangs past its claim, B probes, A's result comes last."""

    def overtaken(engine, request):
        answer = probe(engine, request)
        Node.objects.filter(pk=node.pk).update(claim_expires_at=timezone.now() - timedelta(seconds=1))
        monkeypatch.setattr(inventory, "probe", probe)
        assert probe_node(node.pk).code == ""
        GpuDevice.objects.update(index=77)
        return answer

    monkeypatch.setattr(inventory, "probe", overtaken)
    outcome = probe_node(node.pk)
    assert (outcome.ran, outcome.code) == (False, "probe_overtaken")
    assert set(GpuDevice.objects.values_list("index", flat=True)) == {77}


def test_a_dead_workers_claim_holds_until_it_runs_out(node: Node):
    claims.take(Node, node.pk)
    assert probe_node(node.pk).code == "probe_running"
    Node.objects.filter(pk=node.pk).update(claim_expires_at=timezone.now() - timedelta(seconds=1))
    assert probe_node(node.pk).code == ""


def test_a_probe_that_crashes_gives_its_claim_back(node: Node, monkeypatch):
    def crash(engine, request):
        raise RuntimeError("a bug")

    monkeypatch.setattr(inventory, "probe", crash)
    with pytest.raises(RuntimeError):
        probe_node(node.pk)
    node.refresh_from_db()
    assert node.claim_token is None


def test_no_transaction_is_open_while_the_engine_is_asked(node: Node, monkeypatch):
    seen: list[bool] = []

    def look(engine, request):
        seen.append(connection.in_atomic_block)
        return probe(engine, request)

    monkeypatch.setattr(inventory, "probe", look)
    probe_node(node.pk)
    assert seen == [False]


def test_a_probe_that_takes_longer_than_its_claim_keeps_it(node: Node, monkeypatch, settings):
    settings.MIABI_CLAIM_SECONDS = 2.4
    taken_over = []

    def slow(engine, request):
        time.sleep(3.0)
        taken_over.append(claims.take(Node, node.pk))
        return probe(engine, request)

    monkeypatch.setattr(inventory, "probe", slow)
    assert probe_node(node.pk).code == ""
    assert taken_over == [None]

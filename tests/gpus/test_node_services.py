"""What operators may do with a node."""

from __future__ import annotations

import pytest
from celery import current_app
from kombu.exceptions import OperationalError

from apps_runtime.models import Deployment
from gpus.models import GpuDevice, Node
from gpus.nodes import (
    BadAddress,
    NodeInUse,
    NodeNameTaken,
    ProbingDisabled,
    finish_drain,
    register_node,
    remove_node,
    request_rescan,
    set_schedulable,
    start_drain,
    update_node,
)
from refusals import Malformed
from tests.factories import make_app, make_device, make_node, make_workspace
from workspaces.audit import Actor
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db

ADDRESS = "unix:///run/docker.sock"
PROBE = "gpus.tasks.probe_node"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def wakes(sent, django_capture_on_commit_callbacks):
    """Messages that a block sends when its transaction commits."""

    def during(call) -> list[tuple[str, tuple[int, ...]]]:
        with django_capture_on_commit_callbacks(execute=True):
            call()
        return sent

    return during


def deploy_on(node: Node, **fields) -> Deployment:
    app = make_app(make_workspace())
    return Deployment.objects.create(
        app=app, workspace=app.workspace, number=1, node=node, spec={}, **({"state": "running"} | fields)
    )


def last_event() -> AuditEvent:
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None
    return event


# --- Registering -------------------------------------------------------------------------


def test_a_registered_node_is_schedulable_not_yet_capable_and_probed_soon(wakes, operator: Actor):
    messages = wakes(lambda: register_node({"name": "gpu-1", "address": ADDRESS}, actor=operator))
    node = Node.objects.get()
    assert (node.schedulable, node.gpu_capable, node.engine) == (True, False, "docker")
    assert messages == [(PROBE, (node.pk,))]


def test_with_gpus_switched_off_a_registered_node_is_not_probed(wakes, operator: Actor, settings):
    settings.MIABI_GPU_ENABLED = False
    assert wakes(lambda: register_node({"name": "gpu-1", "address": ADDRESS}, actor=operator)) == []


def test_registering_leaves_a_trace_without_the_credentials(sent, operator: Actor):
    register_node(
        {"name": "gpu-1", "address": "https://gpu-1.example.com:2376", "credentials": {"ca_cert": PEM}}, actor=operator
    )
    event = last_event()
    assert (event.verb, event.actor_name, event.target_name) == ("node.register", "operator", "gpu-1")
    assert event.after["credentials"] == "(set)"
    assert "BEGIN CERTIFICATE" not in str(event.after)


def test_a_name_is_taken_once(sent, operator: Actor):
    make_node("gpu-1")
    with pytest.raises(NodeNameTaken) as refused:
        register_node({"name": "gpu-1", "address": ADDRESS}, actor=operator)
    assert (refused.value.status, refused.value.attr) == (409, "name")
    assert AuditEvent.objects.count() == 0


@pytest.mark.parametrize(
    "address",
    [
        "http://gpu-1:2375",
        "tcp://operator:secret@gpu-1:2375",
        "tcp://169.254.169.254:80",
        "tcp://[fe80::1]:2375",
        "tcp://0.0.0.0:2375",
        "tcp://224.0.0.1:2375",
        "tcp://[::ffff:169.254.169.254]:80",
        "tcp://2852039166:80",
        "tcp://0xA9FEA9FE:80",
        "tcp://gpu-1",
        "unix://run/docker.sock",
        "unix:///run/../etc/docker.sock",
        "unix:///run/docker.sock\n",
        "unix:///proc/1/root/run/docker.sock",
        "tcp://gpu-1:2375/path",
        "tcp://gpu-1:0",
        "ssh://gpu-1:22",
        "",
        "unix:///" + "a" * 250,
    ],
)
def test_an_address_that_no_engine_should_have_is_refused(address: str, sent, operator: Actor):
    with pytest.raises(BadAddress) as refused:
        register_node({"name": "gpu-1", "address": address}, actor=operator)
    assert (refused.value.status, refused.value.attr) == (400, "address")
    assert not Node.objects.exists()


@pytest.mark.parametrize(
    ("address", "stored"),
    [
        (ADDRESS, ADDRESS),
        ("tcp://GPU-1.example.com:2375", "tcp://gpu-1.example.com:2375"),
        ("https://10.0.0.7:2376/", "https://10.0.0.7:2376"),
        ("tcp://[2001:db8::7]:2375", "tcp://[2001:db8::7]:2375"),
    ],
)
def test_an_address_is_stored_in_one_spelling(address: str, stored: str, sent, operator: Actor):
    assert register_node({"name": "gpu-1", "address": address}, actor=operator).address == stored


def test_what_a_probe_decides_cannot_be_set_by_hand(sent, operator: Actor):
    with pytest.raises(Malformed, match="gpu_capable"):
        register_node({"name": "gpu-1", "address": ADDRESS, "gpu_capable": True}, actor=operator)


@pytest.mark.parametrize("material", [{}, {"client_key": "x"}, {"ca_cert": "x", "password": "y"}])
def test_tls_material_of_another_shape_is_refused(material: dict[str, str], sent, operator: Actor):
    with pytest.raises(Malformed) as refused:
        register_node({"name": "gpu-1", "address": ADDRESS, "credentials": material}, actor=operator)
    assert refused.value.attr == "credentials"


# --- Changing ----------------------------------------------------------------------------


def test_a_change_is_traced_with_what_was_and_what_is(operator: Actor):
    node = make_node("gpu-1", labels={"zone": "a"})
    update_node(node, {"labels": {"zone": "b"}, "name": "gpu-1"}, actor=operator)
    event = last_event()
    assert (event.before, event.after) == ({"labels": {"zone": "a"}}, {"labels": {"zone": "b"}})


def test_a_change_of_nothing_leaves_no_trace(operator: Actor):
    node = make_node("gpu-1")
    update_node(node, {"name": "gpu-1"}, actor=operator)
    assert AuditEvent.objects.count() == 0


def test_credentials_that_are_not_named_stay(operator: Actor):
    node = make_node("gpu-1", credentials={"ca_cert": PEM})
    update_node(node, {"probe_image": "registry.example.com/probe:1"}, actor=operator)
    node.refresh_from_db()
    assert node.credentials == {"ca_cert": PEM}


def test_new_credentials_are_never_in_the_trace(operator: Actor):
    node = make_node("gpu-1", credentials={"ca_cert": PEM})
    update_node(node, {"credentials": {"ca_cert": PEM + "2"}}, actor=operator)
    event = last_event()
    assert (event.before, event.after) == ({"credentials": "(set)"}, {"credentials": "(set)"})


def test_another_nodes_name_is_refused(operator: Actor):
    make_node("gpu-1")
    with pytest.raises(NodeNameTaken):
        update_node(make_node("gpu-2"), {"name": "gpu-1"}, actor=operator)


def test_the_address_stays_while_containers_of_ours_live_there(operator: Actor):
    node = make_node("gpu-1")
    deployment = deploy_on(node)
    with pytest.raises(NodeInUse, match="1 live deployment"):
        update_node(node, {"address": ADDRESS}, actor=operator)
    Deployment.objects.filter(pk=deployment.pk).update(state="stopped", ended_at=deployment.created_at)
    assert update_node(node, {"address": ADDRESS}, actor=operator).address == ADDRESS


# --- Cordon and drain --------------------------------------------------------------------


def test_a_cordoned_node_takes_nothing_new_until_it_is_uncordoned(operator: Actor):
    node = make_node("gpu-1")
    assert not set_schedulable(node, False, actor=operator).schedulable
    assert set_schedulable(node, True, actor=operator).schedulable
    assert list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True)) == ["node.cordon", "node.uncordon"]


def test_cordoning_twice_is_one_event(operator: Actor):
    node = make_node("gpu-1")
    set_schedulable(node, False, actor=operator)
    set_schedulable(node, False, actor=operator)
    assert AuditEvent.objects.count() == 1


def test_an_empty_node_is_drained_at_once(operator: Actor):
    node = start_drain(make_node("gpu-1"), actor=operator)
    assert (node.schedulable, node.drain_state) == (False, "drained")


def test_a_node_drains_until_its_last_deployment_has_ended(operator: Actor):
    node = make_node("gpu-1")
    deployment = deploy_on(node)
    assert start_drain(node, actor=operator).drain_state == "draining"
    assert not finish_drain(node.pk)
    Deployment.objects.filter(pk=deployment.pk).update(state="stopped", ended_at=deployment.created_at)
    assert finish_drain(node.pk)
    node.refresh_from_db()
    assert node.drain_state == "drained"


def test_a_node_that_nobody_drains_is_not_drained_by_being_empty(operator: Actor):
    node = make_node("gpu-1")
    assert not finish_drain(node.pk)
    node.refresh_from_db()
    assert (node.schedulable, node.drain_state) == (True, "none")


def test_draining_twice_is_one_event(operator: Actor):
    node = make_node("gpu-1")
    start_drain(node, actor=operator)
    start_drain(node, actor=operator)
    assert AuditEvent.objects.count() == 1


def test_an_uncordon_ends_a_drain(operator: Actor):
    node = start_drain(make_node("gpu-1"), actor=operator)
    node = set_schedulable(node, True, actor=operator)
    assert (node.schedulable, node.drain_state) == (True, "none")


# --- Removing ----------------------------------------------------------------------------


def test_a_node_that_nothing_refers_to_goes_with_its_devices(operator: Actor):
    node = make_node("gpu-1")
    make_device(node)
    remove_node(node, actor=operator)
    assert not Node.objects.exists()
    assert not GpuDevice.objects.exists()
    assert last_event().verb == "node.remove"


@pytest.mark.parametrize("fields", [{"state": "running"}, {"state": "stopped"}])
def test_a_node_with_deployments_stays(fields: dict[str, str], operator: Actor):
    node = make_node("gpu-1")
    deploy_on(node, **fields)
    with pytest.raises(NodeInUse) as refused:
        remove_node(node, actor=operator)
    assert refused.value.status == 409
    assert Node.objects.exists()
    assert AuditEvent.objects.count() == 0


def test_a_node_that_an_app_is_pinned_to_stays(operator: Actor):
    node = make_node("gpu-1")
    make_app(make_workspace(), node=node)
    with pytest.raises(NodeInUse):
        remove_node(node, actor=operator)


# --- Rescan ------------------------------------------------------------------------------


def test_a_rescan_is_noted_and_sent_once_the_request_has_committed(wakes, operator: Actor):
    node = make_node("gpu-1")
    messages = wakes(lambda: request_rescan(node, actor=operator))
    node.refresh_from_db()
    assert node.probe_requested_at is not None
    assert messages == [(PROBE, (node.pk,))]
    assert last_event().verb == "node.rescan"


def test_a_rescan_with_gpus_switched_off_is_refused_with_the_settings_name(sent, operator: Actor, settings):
    settings.MIABI_GPU_ENABLED = False
    with pytest.raises(ProbingDisabled, match="MIABI_GPU_ENABLED") as refused:
        request_rescan(make_node("gpu-1"), actor=operator)
    assert (refused.value.code, refused.value.status) == ("gpu_disabled", 403)
    assert sent == []


def test_a_broker_that_is_down_costs_a_rescan_nothing_but_time(
    monkeypatch, operator: Actor, django_capture_on_commit_callbacks
):
    def down(*args, **options):
        raise OperationalError("connection refused")

    monkeypatch.setattr(current_app, "send_task", down)
    node = make_node("gpu-1")
    with django_capture_on_commit_callbacks(execute=True):
        request_rescan(node, actor=operator)
    node.refresh_from_db()
    assert node.probe_requested_at is not None

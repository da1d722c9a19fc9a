"""Declaring and changing an app: what is kept, what is refused, what is told."""

from __future__ import annotations

import pytest

from apps_runtime.declaring import UnknownKind, create_app, update_app, warnings_of
from apps_runtime.models import App
from gpus.models import GpuDevice
from refusals import Conflict, Malformed, Refusal
from tests.factories import make_app, make_device, make_node, make_plan, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace():
    return make_workspace("vision", plan=make_plan(gpu_limit=8))


def declare(workspace, name="web", **fields) -> App:
    return create_app(workspace, name, {"image": "busybox"} | fields, actor=PLATFORM)


def change(app: App, **fields) -> App:
    return update_app(app, fields, actor=PLATFORM)


def test_a_secret_that_is_left_out_keeps_its_value(workspace):
    app = declare(workspace, env={"MODEL": "llama", "KEY": "hidden"}, secret_env=["KEY"])
    assert change(app, env={"MODEL": "mistral"}).env == {"MODEL": "mistral", "KEY": "hidden"}
    assert change(app, env={}, secret_env=["KEY"]).env == {"KEY": "hidden"}


def test_a_plain_variable_that_is_left_out_is_gone(workspace):
    app = declare(workspace, env={"MODEL": "llama", "OLD": "x"})
    assert change(app, env={"MODEL": "llama"}).env == {"MODEL": "llama"}


def test_a_secret_that_is_no_longer_listed_can_be_dropped(workspace):
    app = declare(workspace, env={"KEY": "hidden"}, secret_env=["KEY"])
    assert change(app, env={}, secret_env=[]).env == {}


def test_a_plain_variable_does_not_become_a_stored_secret_by_being_left_out(workspace):
    app = declare(workspace, env={"KEY": "open"})
    with pytest.raises(Malformed, match="secret_env names KEY"):
        change(app, env={}, secret_env=["KEY"])


def test_a_new_secret_needs_a_value(workspace):
    with pytest.raises(Malformed, match="KEY has no stored value") as refused:
        declare(workspace, env={"KEY": None}, secret_env=["KEY"])
    assert refused.value.attr == "env.KEY"


def test_while_the_cards_of_its_kind_are_away_an_app_can_still_be_changed(workspace):
    make_device(make_node())
    app = declare(workspace, gpu=1, gpu_kind="l4")
    GpuDevice.objects.update(enabled=False)
    assert change(app, tag="2").tag == "2"
    assert change(app, gpu_kind="l4", gpu=2).gpu == 2
    with pytest.raises(UnknownKind):
        change(app, gpu_kind="a100")


def test_a_kind_that_several_models_answer_to_is_told(workspace):
    node = make_node()
    make_device(node, model="NVIDIA A100-SXM4-40GB")
    assert warnings_of(declare(workspace, "one", gpu=1, gpu_kind="a100")) == []
    make_device(node, model="NVIDIA A100-SXM4-80GB")
    (warning,) = warnings_of(declare(workspace, "two", gpu=1, gpu_kind="a100"))
    assert "NVIDIA A100-SXM4-40GB and by NVIDIA A100-SXM4-80GB" in warning
    assert warnings_of(declare(workspace, "three", gpu=1, gpu_kind="a100 80gb")) == []


def test_a_vendors_name_is_meant_to_be_wide(workspace):
    node = make_node()
    make_device(node, model="NVIDIA L4")
    make_device(node, model="NVIDIA A10")
    assert warnings_of(declare(workspace, gpu=1, gpu_kind="nvidia")) == []


def test_the_kinds_that_are_told_are_those_of_enabled_cards(workspace):
    make_device(make_node(), model="NVIDIA L4")
    make_device(make_node(), model="NVIDIA H100", enabled=False)
    with pytest.raises(UnknownKind, match="Kinds: nvidia, l4\\."):
        declare(workspace, gpu=1, gpu_kind="h100")


def test_a_dearer_model_does_not_answer_to_a_shorter_name(workspace):
    make_device(make_node(), model="NVIDIA A100-SXM4-80GB")
    with pytest.raises(UnknownKind):
        declare(workspace, gpu=1, gpu_kind="a10")


def test_an_app_that_is_being_deleted_is_neither_changed_nor_replaced(workspace):
    app = make_app(workspace, "web", desired_state=App.DesiredState.DELETED)
    for attempt in (lambda: change(app, tag="2"), lambda: declare(workspace)):
        with pytest.raises(Conflict) as refused:
            attempt()
        assert refused.value.code == "app_being_deleted"


def test_another_workspaces_app_of_the_same_name_is_no_obstacle(workspace):
    make_app(make_workspace("speech"), "web")
    assert declare(workspace).workspace == workspace


def test_without_plan_enforcement_the_app_limit_is_not_asked(workspace, settings):
    workspace.app_limit = 0
    workspace.save()
    with pytest.raises(Refusal) as refused:
        declare(workspace)
    assert refused.value.code == "app_limit_reached"
    settings.MIABI_PLAN_ENFORCEMENT = False
    assert declare(workspace).pk


def test_the_trail_names_variables_and_never_their_values(workspace):
    app = declare(workspace, env={"MODEL": "llama"})
    change(app, env={"MODEL": "mistral"})
    event = AuditEvent.objects.filter(verb="app.update").get()
    assert event.before == event.after == {"env": ["MODEL"]}


def test_a_change_that_changes_nothing_leaves_no_trace(workspace):
    change(declare(workspace, tag="1"), tag="1")
    assert not AuditEvent.objects.filter(verb="app.update").exists()


def test_a_setting_that_does_not_exist_is_refused(workspace):
    with pytest.raises(Malformed, match="privileged"):
        declare(workspace, privileged=True)

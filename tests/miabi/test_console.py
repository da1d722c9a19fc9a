"""The operator's console: every page renders, rules hold there too, and lists cost the same at any length."""

from __future__ import annotations

import pytest
from celery import current_app
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps_runtime import lifecycle
from apps_runtime.models import App, Deployment
from gpus.models import GpuDevice, Node
from plans.models import Plan
from tests.factories import (
    make_app,
    make_device,
    make_member,
    make_node,
    make_operator,
    make_plan,
    make_user,
    make_workspace,
)
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, AuditEvent, Membership, User, Workspace
from workspaces.tokens import create_token

pytestmark = pytest.mark.django_db

LISTS = [model for model in admin.site._registry if model._meta.app_label != "auth"]


@pytest.fixture(autouse=True)
def _platform(settings, monkeypatch):
    settings.MIABI_GPU_ENABLED = True
    monkeypatch.setattr(current_app, "send_task", lambda *args, **kwargs: None)


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(make_operator("root"))
    return client


def fill(count: int) -> None:
    """``count`` of everything, related to each other as in use."""
    for _ in range(count):
        workspace = make_workspace(plan=make_plan())
        member = make_member(workspace)
        node = make_node()
        make_device(node)
        app = make_app(workspace, gpu=1, node=node)
        lifecycle.request_deploy(app, actor=PLATFORM)
        create_token(member, name="t", workspace=workspace, scope=ApiToken.Scope.READ, actor=PLATFORM)


def queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = client.get(url)
    assert answer.status_code == 200
    return len(captured)


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model._meta.model_name)
def test_a_list_costs_the_same_queries_at_two_and_at_twenty_rows(operator, model):
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    fill(2)
    queries(operator, url)
    few = queries(operator, url)
    fill(18)
    assert queries(operator, url) == few
    assert few < 16


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model._meta.model_name)
def test_every_row_has_a_page_that_renders(operator, model):
    fill(1)
    row = model._default_manager.first()
    assert row is not None
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
    assert operator.get(url).status_code == 200


def test_the_first_page_costs_the_same_at_any_size_and_says_what_is_wrong(operator):
    url = reverse("admin:index")
    assert "No nodes yet" in operator.get(url).content.decode()
    fill(2)
    few = queries(operator, url)
    fill(6)
    make_node("broken", last_probe_ok=False, last_probe_error="toolkit_missing", last_probe_detail="Install it.")
    assert queries(operator, url) == few
    page = operator.get(url).content.decode()
    assert "toolkit_missing" in page
    assert "Install it." in page


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model._meta.model_name)
def test_nobody_else_gets_in(model):
    client = Client()
    client.force_login(make_user("tenant"))
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    assert client.get(url).status_code == 302


def test_a_node_without_the_toolkit_says_so_and_how_to_mend_it(operator):
    light = {"code": "toolkit", "status": "bad", "sentence": "No runtime called nvidia.", "fix": "Run nvidia-ctk."}
    node = make_node(facts={"lights": [light]}, last_probe_ok=False, last_probe_error="toolkit_missing")
    page = operator.get(reverse("admin:gpus_node_change", args=[node.pk])).content.decode()
    assert "No runtime called nvidia." in page
    assert "Run nvidia-ctk." in page
    assert "stale" in page


def test_stored_tls_texts_are_never_shown_and_kept_when_left_empty(operator):
    node = make_node(credentials={"ca_cert": "PEM-CA", "client_cert": "PEM-CERT", "client_key": "PEM-KEY"})
    url = reverse("admin:gpus_node_change", args=[node.pk])
    page = operator.get(url).content.decode()
    assert "PEM-" not in page
    answer = operator.post(url, node_form(node, labels='{"rack": "7"}'))
    assert answer.status_code == 302
    node.refresh_from_db()
    assert node.credentials["client_key"] == "PEM-KEY"
    assert node.labels == {"rack": "7"}


def node_form(node: Node, **changes) -> dict[str, str]:
    fields = {
        "name": node.name,
        "engine": node.engine,
        "address": node.address,
        "labels": "{}",
        "attach_mode": node.attach_mode,
        "probe_image": "",
        "devices-TOTAL_FORMS": "0",
        "devices-INITIAL_FORMS": "0",
    }
    for number, device in enumerate(node.devices.order_by("index", "pk")):
        fields |= {
            "devices-TOTAL_FORMS": str(number + 1),
            "devices-INITIAL_FORMS": str(number + 1),
            f"devices-{number}-id": str(device.pk),
            f"devices-{number}-node": str(node.pk),
            f"devices-{number}-mode": device.mode,
            f"devices-{number}-max_shares": str(device.max_shares),
        }
        if device.enabled:
            fields[f"devices-{number}-enabled"] = "on"
    return fields | changes


def test_a_device_is_enabled_on_its_nodes_page_with_a_trace(operator):
    device = make_device(make_node(), enabled=False)
    url = reverse("admin:gpus_node_change", args=[device.node_id])
    assert operator.post(url, node_form(device.node, **{"devices-0-enabled": "on"})).status_code == 302
    device.refresh_from_db()
    assert device.enabled
    assert AuditEvent.objects.get(verb__startswith="device.").actor_name == "root"


def test_a_refusal_is_shown_in_words_and_changes_nothing(operator):
    node = make_node()
    device = make_device(node)
    lifecycle.request_deploy(make_app(make_workspace(), gpu=1), actor=PLATFORM)
    url = reverse("admin:gpus_node_change", args=[node.pk])
    answer = operator.post(url, node_form(node, **{"devices-0-mode": "shared"}), follow=True)
    assert answer.status_code == 200
    assert "is held by 1" in answer.content.decode()
    device.refresh_from_db()
    assert device.mode == "dedicated"


def test_a_bad_address_is_refused_beside_its_field(operator):
    node = make_node()
    url = reverse("admin:gpus_node_change", args=[node.pk])
    answer = operator.post(url, node_form(node, address="tcp://169.254.169.254:80"))
    assert answer.status_code == 200
    assert "link-local" in str(answer.context["adminform"].form.errors["address"])


def test_a_new_node_is_registered_by_the_service(operator):
    form = node_form(
        Node(name="gpu-9", engine="docker", address="tcp://10.0.0.9:2375", attach_mode="device_request", pk=0)
    )
    answer = operator.post(reverse("admin:gpus_node_add"), form)
    assert answer.status_code == 302
    assert Node.objects.get(name="gpu-9").address == "tcp://10.0.0.9:2375"
    assert AuditEvent.objects.filter(verb="node.register").count() == 1


def test_the_buttons_of_a_node_are_posts(operator):
    node = make_node()
    url = reverse("admin:gpus_node_do", args=[node.pk, "cordon"])
    operator.get(url)
    node.refresh_from_db()
    assert node.schedulable
    operator.post(url)
    node.refresh_from_db()
    assert not node.schedulable


def test_apps_are_stopped_in_bulk_by_the_service(operator):
    make_device(make_node())
    app = make_app(make_workspace(), gpu=1)
    lifecycle.request_deploy(app, actor=PLATFORM)
    url = reverse("admin:apps_runtime_app_changelist")
    operator.post(url, {"action": "stop", "_selected_action": [app.pk]})
    assert Deployment.objects.get().exit_to == "stopped"
    assert App.objects.get().desired_state == "stopped"


def test_a_bulk_deploy_shows_each_refusal(operator):
    app = make_app(make_workspace(), gpu=1)
    url = reverse("admin:apps_runtime_app_changelist")
    answer = operator.post(url, {"action": "deploy", "_selected_action": [app.pk]}, follow=True)
    assert "No node takes new apps" in answer.content.decode()


def test_a_workspaces_page_shows_plan_override_effective_and_use(operator):
    workspace = make_workspace(plan=make_plan(gpu_limit=4), gpu_limit=2)
    make_device(make_node())
    lifecycle.request_deploy(make_app(workspace, gpu=1), actor=PLATFORM)
    page = operator.get(reverse("admin:workspaces_workspace_change", args=[workspace.pk])).content.decode()
    row = page[page.index("GPU units") :][:600]
    assert [cell for cell in ("4", "<strong>2</strong>", "1") if cell in row] == ["4", "<strong>2</strong>", "1"]


def test_overrides_and_suspension_go_through_the_service(operator):
    workspace = make_workspace()
    url = reverse("admin:workspaces_workspace_changelist")
    operator.post(url, {"action": "suspend", "_selected_action": [workspace.pk]})
    workspace.refresh_from_db()
    assert workspace.suspended
    assert AuditEvent.objects.filter(verb="workspace.change", workspace=workspace).exists()


def test_the_last_owner_is_kept_on_a_workspaces_page_too(operator):
    workspace = make_workspace()
    make_member(workspace, "owner", "ann")
    membership = Membership.objects.get()
    form = {
        "name": "",
        "plan": workspace.plan_id,
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-workspace": workspace.pk,
        "memberships-0-user": membership.user_id,
        "memberships-0-role": "owner",
        "memberships-0-DELETE": "on",
    }
    answer = operator.post(reverse("admin:workspaces_workspace_change", args=[workspace.pk]), form, follow=True)
    assert "last owner" in answer.content.decode()
    assert Membership.objects.count() == 1


def test_a_plan_in_use_is_not_deleted(operator):
    plan = make_workspace().plan
    answer = operator.post(reverse("admin:plans_plan_delete", args=[plan.pk]), {"post": "yes"}, follow=True)
    assert answer.status_code == 200
    assert Plan.objects.filter(pk=plan.pk).exists()


def test_a_token_is_shown_once(operator):
    workspace = make_workspace()
    user = make_member(workspace)
    form = {"user": user.pk, "workspace": workspace.pk, "name": "ci", "scope": "read"}
    answer = operator.post(reverse("admin:workspaces_apitoken_add"), form, follow=True)
    assert "mia_" in answer.content.decode()
    token = ApiToken.objects.get()
    later = operator.get(reverse("admin:workspaces_apitoken_changelist")).content.decode()
    assert later.count("mia_") == later.count(token.prefix)


def test_secret_values_of_an_app_are_never_rendered(operator):
    app = make_app(make_workspace(), env={"KEY": "hidden-value"}, secret_env=["KEY"])
    page = operator.get(reverse("admin:apps_runtime_app_change", args=[app.pk])).content.decode()
    assert "hidden-value" not in page


def test_rows_that_services_own_cannot_be_edited_by_hand(operator):
    fill(1)
    for model in (App, Deployment, GpuDevice, AuditEvent):
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.first()
        assert operator.post(reverse(f"admin:{name}_change", args=[row.pk]), {}).status_code == 403
        assert operator.post(reverse(f"admin:{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


def test_users_are_not_deleted(operator):
    user = make_user()
    assert operator.post(reverse("admin:workspaces_user_delete", args=[user.pk]), {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=user.pk).exists()
    assert Workspace.objects.count() == 0

"""Apps over the API: declaring, refusing, listing; nothing secret comes back."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps_runtime import lifecycle
from apps_runtime.models import App, Deployment, Secret, Volume
from tests.factories import make_app, make_device, make_member, make_node, make_plan, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]

APPS = "/api/v1/workspaces/vision/apps"


@pytest.fixture
def workspace():
    return make_workspace("vision", plan=make_plan(gpu_limit=8))


@pytest.fixture
def tenant(workspace) -> APIClient:
    client = APIClient()
    client.force_authenticate(make_member(workspace))
    return client


def create(tenant: APIClient, **fields):
    return tenant.post(APPS, {"name": "web", "image": "registry.example.com/acme/web"} | fields)


def refusal(answer) -> tuple[int, str, str | None]:
    body = answer.json()
    return answer.status_code, body["code"], body["errors"][0]["attr"]


def test_an_app_reads_back_as_it_was_declared(tenant):
    fields = {
        "tag": "1.4",
        "command": ["serve", "--port=8000"],
        "ports": [{"container": 8000, "publish": True}],
        "env": {"MODEL": "llama"},
        "cpu": "1500m",
        "memory": "512Mi",
        "labels": {"team": "vision"},
    }
    answer = create(tenant, **fields)
    assert answer.status_code == 201
    told = answer.json()
    assert {name: told[name] for name in fields} == fields | {
        "ports": [{"container": 8000, "publish": True, "protocol": "tcp"}]
    }
    assert (told["state"], told["latest"]) == ("new", None)


def test_a_secret_value_is_stored_encrypted_and_never_returned(tenant):
    answer = create(tenant, env={"MODEL": "llama", "KEY": "hidden"}, secret_env=["KEY"])
    assert answer.json()["env"] == {"MODEL": "llama", "KEY": None}
    with connection.cursor() as cursor:
        cursor.execute("SELECT env FROM apps_runtime_app")
        assert "hidden" not in cursor.fetchone()[0]
    assert "hidden" not in str(list(AuditEvent.objects.values_list("before", "after")))


def test_null_keeps_a_stored_secret_and_cannot_reveal_it(tenant):
    create(tenant, env={"KEY": "hidden"}, secret_env=["KEY"])
    assert tenant.patch(f"{APPS}/web", {"env": {"KEY": None, "NEW": "x"}}).status_code == 200
    assert App.objects.get().env == {"KEY": "hidden", "NEW": "x"}
    assert refusal(tenant.patch(f"{APPS}/web", {"secret_env": [], "env": {"KEY": None}}))[0] == 400
    assert refusal(tenant.patch(f"{APPS}/web", {"secret_env": []})) == (400, "invalid", "secret_env")
    assert tenant.patch(f"{APPS}/web", {"secret_env": [], "env": {"KEY": "open"}}).json()["env"] == {"KEY": "open"}
    create(tenant, name="other", env={"KEY": "hidden"}, secret_env=["KEY"])
    assert refusal(tenant.patch(f"{APPS}/other", {"secret_env": []}))[0] == 400
    assert App.objects.get(name="other").secret_env == ["KEY"]


@pytest.mark.parametrize(
    ("fields", "status", "code", "attr"),
    [
        ({"name": "Web"}, 400, "invalid", "name"),
        ({"name": "a" * 41}, 400, "invalid", "name"),
        ({"image": "http://x/y"}, 400, "invalid", "image"),
        ({"image": "web:1"}, 400, "invalid", "image"),
        ({"image": "WEB"}, 400, "invalid", "image"),
        ({"tag": "-x"}, 400, "invalid", "tag"),
        ({"digest": "sha256:x"}, 400, "invalid", "digest"),
        ({"cpu": "plenty"}, 400, "invalid", "cpu"),
        ({"cpu": 0}, 400, "invalid", "cpu"),
        ({"memory": "1Ki"}, 400, "invalid", "memory"),
        ({"memory": True}, 400, "invalid", "memory"),
        ({"gpu": -1}, 400, "min_value", "gpu"),
        ({"gpu": 65}, 400, "max_value", "gpu"),
        ({"gpu": "many"}, 400, "invalid", "gpu"),
        ({"gpu_kind": "l4"}, 422, "gpu_kind_without_gpu", "gpu_kind"),
        ({"gpu": 1, "gpu_kind": "h100"}, 422, "gpu_unknown_kind", "gpu_kind"),
        ({"gpu": 1, "replicas": 2}, 422, "gpu_requires_single_container", "runtime"),
        ({"gpu": 1, "runtime": "service"}, 422, "gpu_requires_single_container", "runtime"),
        ({"ports": [{"container": 0}]}, 400, "min_value", "ports.0.container"),
        ({"ports": [{"container": 1}, {"container": 1}]}, 400, "invalid", "ports"),
        ({"ports": [{"container": 80, "hostPort": 80}]}, 400, "unknown_field", "ports.0.hostPort"),
        ({"mounts": [{"volume": "models", "path": "/models"}]}, 422, "volume_not_found", "mounts"),
        ({"mounts": [{"volume": "/etc", "path": "/x"}]}, 400, "invalid", "mounts.0.volume"),
        ({"mounts": [{"volume": "a", "path": "/../etc"}]}, 400, "invalid", "mounts.0.path"),
        ({"mounts": [{"volume": "a", "path": "/proc/1"}]}, 400, "invalid", "mounts.0.path"),
        ({"secret_refs": ["hub"]}, 422, "secret_not_found", "secret_refs"),
        ({"secret_env": ["KEY"]}, 400, "invalid", "secret_env"),
        ({"env": {"A": "x"}, "secret_env": ["A", "A"]}, 400, "invalid", "secret_env"),
        ({"gpu_capabilities": ["video", "video"]}, 400, "invalid", "gpu_capabilities"),
        ({"labels": {"": "x"}}, 400, "invalid", "labels"),
        ({"labels": {str(number): "" for number in range(65)}}, 400, "invalid", "labels"),
        ({"env": {"A=B": "x"}}, 400, "invalid", "env"),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, 422, "env_reserved", "env.NVIDIA_VISIBLE_DEVICES"),
        ({"env": {"A": "x\x00"}}, 400, "invalid", "env.A"),
        ({"node": "nowhere"}, 422, "unknown_node", "node"),
        ({"privileged": True}, 400, "unknown_field", "privileged"),
        ({"devices": ["/dev/nvidia0"]}, 400, "unknown_field", "devices"),
        ({"gpu_capabilities": ["all"]}, 400, "invalid_choice", "gpu_capabilities.0"),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(tenant, fields, status, code, attr):
    make_device(make_node())
    assert refusal(create(tenant, **fields)) == (status, code, attr)
    assert not App.objects.exists()


def test_an_unknown_kind_tells_the_kinds_that_there_are(tenant):
    make_device(make_node())
    make_device(make_node(), model="Tesla T4", enabled=False)
    detail = create(tenant, gpu=1, gpu_kind="h100").json()["detail"]
    assert "Kinds: nvidia, l4." in detail


@pytest.mark.parametrize(
    ("changes", "code"), [({"gpu_allowed": False}, "gpu_not_allowed"), ({"security_profile": "restricted"}, None)]
)
def test_saving_an_app_that_asks_for_a_gpu_needs_the_capability(tenant, workspace, changes, code):
    make_device(make_node())
    for name, value in changes.items():
        setattr(workspace.plan, name, value)
    workspace.plan.save()
    answer = create(tenant, gpu=1)
    assert answer.json()["code"] == (code or "gpu_restricted_profile")
    assert create(tenant, gpu=0).status_code == 201


def test_with_gpus_switched_off_the_request_is_refused(tenant, settings):
    settings.MIABI_GPU_ENABLED = False
    assert refusal(create(tenant, gpu=1)) == (403, "gpu_disabled", "gpu")


def test_a_name_is_taken_once(tenant):
    create(tenant)
    assert refusal(create(tenant)) == (409, "app_exists", "name")


def test_the_app_limit_counts(tenant, workspace):
    workspace.app_limit = 1
    workspace.save()
    create(tenant)
    answer = create(tenant, name="second")
    assert (answer.status_code, answer.json()["code"]) == (409, "app_limit_reached")
    assert answer.json()["facts"] == {"limit": 1, "used": 1, "requested": 1}


def test_changing_an_app_does_not_touch_what_runs(tenant, workspace):
    make_node()
    create(tenant, tag="1")
    deployment = lifecycle.request_deploy(App.objects.get(), actor=PLATFORM)
    tenant.patch(f"{APPS}/web", {"tag": "2"})
    deployment.refresh_from_db()
    assert deployment.spec["image"].endswith(":1")


def test_capabilities_have_no_gpu_block_where_gpus_may_not_be_asked_for(tenant, workspace):
    url = "/api/v1/workspaces/vision/capabilities"
    make_device(make_node())
    assert tenant.get(url).json()["gpu"]["kinds"] == ["nvidia", "l4"]
    workspace.gpu_allowed = False
    workspace.save()
    assert "gpu" not in tenant.get(url).json()


def test_fit_says_whether_it_would_start_and_saves_nothing(tenant):
    make_device(make_node("gpu-1"), enabled=False)
    body = {"name": "draft", "image": "x", "gpu": 1}
    answer = tenant.post(f"{APPS}/fit", body).json()
    assert (answer["fits"], answer["code"]) == (False, "gpu_no_device")
    assert answer["nodes"][0]["node"] == "gpu-1"
    make_device(make_node("gpu-2"))
    assert tenant.post(f"{APPS}/fit", body).json()["fits"] is True
    assert not App.objects.exists()


def test_operators_words_are_not_for_tenants(tenant, workspace):
    make_node()
    app = make_app(workspace, "web")
    deployment = lifecycle.request_deploy(app, actor=PLATFORM)
    Deployment.objects.filter(pk=deployment.pk).update(operator_detail="10.0.0.7: raw engine text")
    app.events.update(operator_detail="10.0.0.7: raw engine text")
    for path in ("", "/events", "/deployments", "/deployments/1", "/deployments/1/events"):
        assert "raw engine text" not in tenant.get(f"{APPS}/web{path}").content.decode()


def test_lists_filter_search_order_and_page(tenant, workspace):
    make_device(make_node())
    for name in ("alpha", "beta", "gamma"):
        make_app(workspace, name)
    lifecycle.request_deploy(make_app(workspace, "delta", gpu=1), actor=PLATFORM)

    def names(query: str) -> list[str]:
        return [app["name"] for app in tenant.get(f"{APPS}?{query}").json()["results"]]

    assert names("gpu=true") == names("state=queued") == ["delta"]
    assert names("search=amm") == ["gamma"]
    assert names("ordering=-name") == ["gamma", "delta", "beta", "alpha"]
    assert names("page_size=2&page=2") == ["delta", "gamma"]
    assert tenant.get(f"{APPS}?page=9").status_code == 404
    assert tenant.get(f"{APPS}?state=flying").status_code == 400


@pytest.mark.parametrize("path", ["apps", "apps/app-0/deployments", "apps/app-0/events", "volumes", "secrets"])
def test_a_list_costs_the_same_queries_at_two_and_at_twenty_rows(tenant, workspace, path):
    node = make_node()

    def fill(first: int, count: int) -> None:
        for number in range(first, first + count):
            make_device(node)
            app = make_app(workspace, f"app-{number}", gpu=1)
            lifecycle.request_deploy(app, actor=PLATFORM)
            Volume.objects.create(workspace=workspace, name=f"v-{number}")
            Secret.objects.create(workspace=workspace, name=f"s-{number}", data={}, keys=[])
            lifecycle.request_deploy(App.objects.get(name="app-0"), actor=PLATFORM)

    workspace.gpu_limit = -1
    workspace.save()

    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert tenant.get(f"/api/v1/workspaces/vision/{path}").status_code == 200
        return len(captured)

    fill(0, 2)
    few = cost()
    fill(2, 18)
    assert cost() == few <= 8


def test_labels_of_a_volume_can_be_changed_and_nothing_else(tenant):
    url = "/api/v1/workspaces/vision/volumes"
    tenant.post(url, {"name": "models"})
    assert tenant.patch(f"{url}/models", {"labels": {"team": "vision"}}).json()["labels"] == {"team": "vision"}
    assert tenant.patch(f"{url}/models", {"name": "other"}).status_code == 400
    assert tenant.patch(f"{url}/nowhere", {"labels": {}}).status_code == 404


@pytest.mark.parametrize("server", ["https://registry.example.com", "registry.example.com/team", "a:99999"])
def test_a_registry_is_a_host_and_no_address(tenant, server):
    fields = {"name": "acme", "server": server, "username": "ci", "password": "x"}
    assert refusal(tenant.post("/api/v1/workspaces/vision/registries", fields)) == (400, "invalid", "server")


def test_an_ambiguous_kind_is_told_beside_the_app(tenant):
    node = make_node()
    for model in ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"):
        make_device(node, model=model)
    assert "a100 is served by" in create(tenant, gpu=1, gpu_kind="a100").json()["warnings"][0]
    assert "a100 is served by" in tenant.get(f"{APPS}/web").json()["warnings"][0]


def test_a_volume_in_use_is_not_deleted(tenant):
    assert tenant.post("/api/v1/workspaces/vision/volumes", {"name": "models"}).status_code == 201
    create(tenant, mounts=[{"volume": "models", "path": "/models"}])
    answer = tenant.delete("/api/v1/workspaces/vision/volumes/models")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "web" in answer.json()["detail"]


def test_secrets_and_registry_passwords_are_write_only(tenant):
    base = "/api/v1/workspaces/vision"
    made = tenant.post(f"{base}/secrets", {"name": "hub", "data": {"TOKEN": "hidden"}})
    assert made.json()["keys"] == ["TOKEN"]
    registry = {"name": "acme", "server": "registry.example.com", "username": "ci", "password": "hidden"}
    assert tenant.post(f"{base}/registries", registry).status_code == 201
    for path in ("secrets", "secrets/hub", "registries", "registries/acme", "audit"):
        assert "hidden" not in tenant.get(f"{base}/{path}").content.decode()
    reserved = tenant.post(f"{base}/secrets", {"name": "bad", "data": {"nvidia_visible_devices": "all"}})
    assert reserved.json()["code"] == "env_reserved"


def test_a_manifest_is_applied_from_the_shell(workspace, tmp_path):
    make_node()
    file = tmp_path / "app.yaml"
    file.write_text("apiVersion: miabi.io/v1\nkind: Application\nmetadata: {name: web}\nspec: {image: busybox}\n")
    out = io.StringIO()
    call_command("apply", file=str(file), workspace="vision", deploy=True, stdout=out)
    assert "Application/web created" in out.getvalue()
    assert "deployment #1 queued" in out.getvalue()
    file.write_text(file.read_text().replace("image", "imgae"))
    with pytest.raises(CommandError, match=r"manifest_invalid: line 4: spec\.imgae is not known"):
        call_command("apply", file=str(file), workspace="vision")

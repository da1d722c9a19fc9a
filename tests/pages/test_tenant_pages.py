"""The tenant's pages: what they show, refuse and hide."""

from __future__ import annotations

import re

import pytest
from celery import current_app
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps_runtime import lifecycle, pages_urls
from apps_runtime.models import App, Deployment
from apps_runtime.states import State
from tests.factories import make_app, make_device, make_member, make_node, make_operator, make_plan, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, Membership, User

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _platform(settings, monkeypatch):
    settings.MIABI_GPU_ENABLED = True
    monkeypatch.setattr(current_app, "send_task", lambda *args, **kwargs: None)


@pytest.fixture
def workspace():
    return make_workspace("vision", plan=make_plan(gpu_limit=2))


def signed_in(workspace, role: str = "owner", name: str = "") -> Client:
    client = Client()
    client.force_login(make_member(workspace, role, name))
    return client


@pytest.fixture
def tenant(workspace) -> Client:
    return signed_in(workspace, "owner", "ann")


def form(**changes) -> dict[str, str]:
    return {"name": "web", "image": "busybox", "accelerator": "cpu"} | changes


def running(workspace, **fields) -> App:
    app = make_app(workspace, "web", **fields)
    deployment = lifecycle.request_deploy(app, actor=PLATFORM)
    Deployment.objects.filter(pk=deployment.pk).update(state=State.RUNNING)
    return app


ADDRESSES = [
    re.sub(r"\(\?P<(\w+)>[^)]*\)|<(?:\w+:)?(\w+)>", lambda found: "{%s}" % (found[1] or found[2]), str(entry.pattern))
    .removeprefix("^")
    .removesuffix("$")
    for entry in pages_urls.urlpatterns
]
SCOPED = [address for address in ADDRESSES if "{slug}" in address]


@pytest.mark.parametrize("address", SCOPED)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_foreign_workspace_is_not_there(workspace, address, method):
    make_app(workspace, "web")
    stranger = signed_in(make_workspace("others"))
    url = "/" + address.format(slug="vision", name="web", verb="stop", pk=1)
    assert getattr(stranger, method)(url).status_code in (404, 405)


@pytest.mark.parametrize("address", SCOPED)
def test_nobody_looks_without_signing_in(workspace, address):
    url = "/" + address.format(slug="vision", name="web", verb="stop", pk=1)
    answer = Client().get(url)
    assert answer.status_code in (302, 405)
    if answer.status_code == 302:
        assert answer["Location"].startswith("/login")


def test_people_of_one_workspace_land_on_its_apps_and_operators_on_the_console(tenant):
    assert tenant.get("/")["Location"] == "/w/vision/apps"
    operator = Client()
    operator.force_login(make_operator())
    assert operator.get("/")["Location"] == "/admin/"


def test_an_empty_workspace_says_what_to_do(tenant):
    assert "Create the first one" in tenant.get("/w/vision/apps").content.decode()


def test_an_app_is_created_from_the_form_with_its_secrets_hidden(tenant):
    make_device(make_node())
    fields = form(
        accelerator="gpu",
        gpu="1",
        gpu_kind="l4",
        cpu="500m",
        memory="1Gi",
        command="sh -c 'nvidia-smi -L; sleep 1'",
        env="MODEL=llama",
        secrets="KEY=s3cr3t",
        ports="8000, 9000",
    )
    answer = tenant.post("/w/vision/apps/-/new", fields)
    assert (answer.status_code, answer["Location"]) == (302, "/w/vision/apps/web")
    app = App.objects.get()
    assert (app.gpu, app.gpu_kind, app.cpu_millis, app.memory_mib) == (1, "l4", 500, 1024)
    assert app.command == ["sh", "-c", "nvidia-smi -L; sleep 1"]
    assert app.env == {"MODEL": "llama", "KEY": "s3cr3t"}
    for page in ("web", "web/edit"):
        assert "s3cr3t" not in tenant.get(f"/w/vision/apps/{page}").content.decode()


def test_editing_keeps_a_secret_that_is_left_empty(tenant, workspace):
    make_app(workspace, "web", env={"KEY": "s3cr3t"}, secret_env=["KEY"])
    answer = tenant.post("/w/vision/apps/web/edit", form(image="busybox", secrets="KEY="))
    assert answer.status_code == 302
    app = App.objects.get()
    assert (app.image, app.env) == ("busybox", {"KEY": "s3cr3t"})


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"name": "Not A Name"}, "name", "lowercase letters"),
        ({"image": "busybox:1"}, "image", "tag in its own field"),
        ({"cpu": "plenty"}, "cpu", "is no amount of CPU"),
        ({"env": "nvidia_visible_devices=all"}, "env", "set by the platform"),
        ({"mounts": "data:/data"}, "mounts", "no volume called data"),
        ({"ports": "eighty"}, "ports", "valid integer"),
        ({"command": "sh -c 'unclosed"}, "command", "closing quotation"),
        ({"accelerator": "gpu", "gpu": "1", "gpu_kind": "h100"}, "gpu_kind", "not one of the available choices"),
    ],
)
def test_what_cannot_be_stands_beside_its_field_and_nothing_typed_is_lost(tenant, changes, field, words):
    make_device(make_node())
    answer = tenant.post("/w/vision/apps/-/new", form(**({"tag": "keep-me"} | changes)))
    assert answer.status_code == 200
    assert words in str(answer.context["form"].errors[field])
    assert 'value="keep-me"' in answer.content.decode()
    assert not App.objects.exists()


def test_gpu_controls_are_hidden_where_the_plan_allows_none(tenant, workspace):
    page = tenant.get("/w/vision/apps/-/new").content.decode()
    assert page.index("CPU only") < page.index(">GPUs<")
    workspace.gpu_allowed = False
    workspace.save()
    page = tenant.get("/w/vision/apps/-/new").content.decode()
    assert "CPU only" in page
    assert "gpu-part" not in page


def test_the_form_says_live_whether_it_fits(tenant):
    fields = form(accelerator="gpu", gpu="1")
    device = make_device(make_node("gpu-1"))
    assert "It fits now" in tenant.post("/w/vision/apps/-/fit", fields).content.decode()
    device.enabled = False
    device.save()
    answer = tenant.post("/w/vision/apps/-/fit", fields).content.decode()
    assert "does not fit now" in answer
    assert "1 not enabled" in answer
    assert not App.objects.exists()


def test_a_refused_deploy_is_told_in_the_apis_own_words(tenant, workspace):
    make_app(workspace, "web", gpu=3)
    make_node()
    answer = tenant.post("/w/vision/apps/web/do/deploy", follow=True)
    assert "holds 0 of 2 GPU units and 3 more were requested" in answer.content.decode()


def test_the_state_asks_again_only_while_work_runs(tenant, workspace):
    make_device(make_node())
    app = make_app(workspace, "web", gpu=1)
    tenant.post("/w/vision/apps/web/do/deploy")
    assert "every 1s" in tenant.get("/w/vision/apps/web/state").content.decode()
    Deployment.objects.update(state=State.RUNNING)
    settled = tenant.get("/w/vision/apps/web/state").content.decode()
    assert "every 1s" not in settled
    assert "NVIDIA L4" in settled
    lifecycle.request_stop(app, actor=PLATFORM)
    assert "every 1s" in tenant.get("/w/vision/apps/web/state").content.decode()


def test_only_what_makes_sense_is_offered(tenant, workspace):
    make_node()
    make_app(workspace, "new")
    running(workspace)
    assert "/do/deploy" in tenant.get("/w/vision/apps/new").content.decode()
    assert "/do/stop" not in tenant.get("/w/vision/apps/new").content.decode()
    page = tenant.get("/w/vision/apps/web").content.decode()
    assert "/do/stop" in page
    assert "/do/start" not in page
    assert page.count("data-confirm") >= 3


def test_a_viewer_reads_and_changes_nothing(workspace):
    make_node()
    running(workspace)
    viewer = signed_in(workspace, "viewer")
    page = viewer.get("/w/vision/apps/web").content.decode()
    assert "/do/" not in page
    assert "needs the role developer" in viewer.post("/w/vision/apps/web/do/stop", follow=True).content.decode()
    assert Deployment.objects.get().exit_to == ""


def test_posts_need_the_csrf_token(workspace):
    running_app = make_app(workspace, "web")
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member(workspace))
    assert client.post(f"/w/vision/apps/{running_app.name}/do/stop").status_code == 403


def test_members_are_added_changed_and_removed_by_the_rules(tenant, workspace):
    User.objects.create_user("bob")
    tenant.post("/w/vision/members/add", {"username": "bob", "role": "developer"})
    bob = Membership.objects.get(user__username="bob")
    assert bob.role == "developer"
    ann = Membership.objects.get(user__username="ann")
    answer = tenant.post(f"/w/vision/members/{ann.pk}", {"remove": ""}, follow=True)
    assert "last owner" in answer.content.decode()
    tenant.post(f"/w/vision/members/{bob.pk}", {"remove": ""})
    assert not Membership.objects.filter(pk=bob.pk).exists()
    answer = tenant.post("/w/vision/members/add", {"username": "nobody", "role": "viewer"}, follow=True)
    assert "Nobody here is called nobody" in answer.content.decode()


def test_a_token_is_shown_once_and_can_be_revoked(tenant):
    page = tenant.post("/w/vision/tokens", {"name": "ci", "scope": "write"}).content.decode()
    found = re.search(r"mia_[\w-]{20,}", page)
    assert found
    text = found[0]
    assert text not in tenant.get("/w/vision/tokens").content.decode()
    tenant.post(f"/w/vision/tokens/{ApiToken.objects.get().pk}/revoke")
    assert not ApiToken.objects.get().usable


@pytest.mark.parametrize("path", ["apps", "apps/web", "apps/-/new", "members", "tokens"])
def test_a_page_is_small_asks_nobody_else_and_costs_the_same_at_any_length(tenant, workspace, path):
    make_node()
    running(workspace, gpu=0)

    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            answer = tenant.get(f"/w/vision/{path}")
        assert answer.status_code == 200
        page = answer.content.decode()
        assert len(page) < 100_000
        assert not re.findall(r"""(?:src|href|action)=["'](?:https?:)?//""", page)
        return len(captured)

    cost()
    few = cost()
    for number in range(20):
        app = make_app(workspace, f"app-{number}")
        lifecycle.request_deploy(app, actor=PLATFORM)
        make_member(workspace)
        tenant.post("/w/vision/tokens", {"name": f"t-{number}", "scope": "read"})
    assert cost() == few
    assert few < 20

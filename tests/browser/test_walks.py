"""The main walks in a real browser: an operator's, a tenant's, and two tenants who must not meet."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from apps_runtime.models import App
from gpus.models import GpuDevice, Node
from tests.factories import make_app, make_member, make_operator, make_plan, make_workspace
from workspaces.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PASSWORD = "correct horse battery"


def with_password(user: User) -> User:
    user.set_password(PASSWORD)
    user.save()
    return user


def sign_in(page: Page, user: User, path: str = "/login") -> None:
    page.goto(path)
    page.fill("[name=username]", user.username)
    page.fill("[name=password]", PASSWORD)
    page.click("main button, #login-form button[type=submit], form button[type=submit]")
    page.wait_for_load_state()


def serious_problems(page: Page) -> list[str]:
    """What axe-core calls serious or critical on the page as it stands."""
    found = Axe().run(page)
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:160]}"
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def fill_form(page: Page, name: str, *, gpus: int, command: str = "sh -c 'nvidia-smi -L; sleep 600'") -> None:
    page.fill("[name=name]", name)
    page.fill("[name=image]", "busybox")
    page.fill("[name=command]", command)
    if gpus:
        page.select_option("[name=accelerator]", "gpu")
        page.fill("[name=gpu]", str(gpus))


def test_an_operator_rescans_a_node_and_enables_a_card(page: Page, node: Node, worker):
    sign_in(page, with_password(make_operator("root")))
    expect(page).to_have_url(page.url.split("/admin")[0] + "/admin/")
    page.goto(f"/admin/gpus/node/{node.pk}/change/")
    page.get_by_role("button", name="Rescan").click()
    expect(page.get_by_text("A probe is due")).to_be_visible()
    for _ in range(50):
        if GpuDevice.objects.count() == 4:
            break
        page.wait_for_timeout(100)
    page.reload()
    expect(page.get_by_text("The runtime nvidia is registered")).to_be_visible()
    boxes = page.locator("input[name^='devices-'][name$='-enabled']:not([name*='__prefix__'])")
    expect(boxes).to_have_count(4)
    boxes.nth(0).check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_load_state()
    assert GpuDevice.objects.filter(enabled=True).count() == 1


def test_a_tenant_deploys_an_app_sees_its_card_and_stops_it(page: Page, node: Node, worker):
    rescan(page, node)
    workspace = make_workspace("vision", plan=make_plan(gpu_limit=1))
    sign_in(page, with_password(make_member(workspace, "developer", "ann")))
    page.get_by_role("link", name="Create the first one").click()
    expect(page.locator("#gpu-part")).to_be_hidden()
    fill_form(page, "inference", gpus=1)
    expect(page.locator("#gpu-part")).to_be_visible()
    expect(page.get_by_text("It fits now.")).to_be_visible()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#state h2")).to_have_text("never deployed")
    page.get_by_role("button", name="Deploy").click()
    expect(page.locator("#state h2")).to_have_text("running", timeout=20_000)
    expect(page.get_by_text("GPUs granted: NVIDIA L4")).to_be_visible()
    expect(page.get_by_text("checked inside")).to_be_visible()
    expect(page.locator("#logs pre")).to_contain_text("GPU 0: NVIDIA L4 (UUID: GPU-", timeout=10_000)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#state h2")).to_have_text("stopped", timeout=20_000)
    assert not GpuDevice.objects.filter(held__gt=0).exists()


def test_over_the_quota_the_form_and_the_deploy_say_why(page: Page, node: Node, worker):
    rescan(page, node)
    workspace = make_workspace("vision", plan=make_plan(gpu_limit=1))
    sign_in(page, with_password(make_member(workspace, "developer", "ann")))
    page.goto("/w/vision/apps/-/new")
    fill_form(page, "greedy", gpus=2)
    expect(page.get_by_text("holds 0 of 1 GPU units and 2 more were requested")).to_be_visible()
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Deploy").click()
    expect(page.get_by_role("alert")).to_contain_text("holds 0 of 1 GPU units and 2 more were requested")


def test_a_wrong_field_is_told_beside_it_and_what_was_typed_stays(page: Page, node: Node):
    workspace = make_workspace("vision")
    sign_in(page, with_password(make_member(workspace, "developer", "ann")))
    page.goto("/w/vision/apps/-/new")
    fill_form(page, "web", gpus=0)
    page.fill("[name=env]", "NVIDIA_VISIBLE_DEVICES=all")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#id_env_error")).to_contain_text("is set by the platform")
    expect(page.locator("[name=env]")).to_have_value("NVIDIA_VISIBLE_DEVICES=all")


def test_two_tenants_never_see_each_other(page: Page, node: Node):
    theirs, ours = make_workspace("rivals"), make_workspace("vision")
    make_app(theirs, "top-secret")
    sign_in(page, with_password(make_member(ours, "owner", "ann")))
    for path in ("/w/rivals/apps", "/w/rivals/apps/top-secret", "/w/rivals/members", "/w/rivals/tokens"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 404
    page.goto("/w/vision/apps")
    assert "top-secret" not in page.content()
    assert "rivals" not in page.content()


def test_no_page_has_a_serious_accessibility_problem(page: Page, node: Node, worker):
    rescan(page, node)
    workspace = make_workspace("vision")
    make_app(workspace, "web", env={"A": "b"})
    page.goto("/login")
    problems = {"/login": serious_problems(page)}
    sign_in(page, with_password(make_member(workspace, "owner", "ann")))
    for path in ("apps", "apps/-/new", "apps/web", "apps/web/edit", "members", "tokens"):
        page.goto(f"/w/vision/{path}")
        page.wait_for_timeout(300)
        problems[path] = serious_problems(page)
    assert {path: found for path, found in problems.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_a_phone(page: Page, node: Node, scheme):
    workspace = make_workspace("vision")
    make_app(workspace, "a-rather-long-name-for-an-application", image="registry.example.com/a/very/long/image/name")
    sign_in(page, with_password(make_member(workspace, "owner", "ann")))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    name = App.objects.get().name
    for path in ("apps", "apps/-/new", f"apps/{name}", "members", "tokens"):
        page.goto(f"/w/vision/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert serious_problems(page) == []


def rescan(page: Page, node: Node) -> None:
    """All four cards found and enabled, as an operator has done before."""
    from gpus.inventory import probe_node

    assert probe_node(node.pk).code == ""
    GpuDevice.objects.update(enabled=True)

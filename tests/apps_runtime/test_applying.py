"""Applying a manifest: all or nothing, twice as once, and first only asking."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from apps_runtime.models import App, Deployment, Registry, Secret, Volume
from tests.factories import make_device, make_member, make_node, make_plan, make_workspace
from workspaces.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]

MANIFEST = """
apiVersion: miabi.io/v1
kind: Volume
metadata: {name: models}
---
apiVersion: miabi.io/v1
kind: Secret
metadata: {name: hub}
spec: {data: {HF_TOKEN: s3cr3t}}
---
apiVersion: miabi.io/v1
kind: Registry
metadata: {name: acme}
spec: {server: registry.example.com, username: ci, password: pa55}
---
apiVersion: miabi.io/v1
kind: Application
metadata: {name: inference, labels: {team: vision}}
spec:
  image: registry.example.com/acme/inference
  tag: "1"
  env: {MODEL: llama, KEY: hidden}
  secretEnv: [KEY]
  secretRefs: [hub]
  mounts: [{volume: models, path: /models}]
  resources: {cpu: 500m, memory: 1Gi, gpu: 1, gpuKind: l4}
"""


@pytest.fixture
def workspace():
    return make_workspace("vision", plan=make_plan(gpu_limit=2))


@pytest.fixture
def tenant(workspace) -> APIClient:
    client = APIClient()
    client.force_authenticate(make_member(workspace))
    return client


@pytest.fixture
def device():
    return make_device(make_node("gpu-1"))


def apply(tenant: APIClient, text: str = MANIFEST, query: str = "", expect: int = 200):
    answer = tenant.post(
        f"/api/v1/workspaces/vision/manifests/apply{query}", text.encode(), content_type="application/yaml"
    )
    assert answer.status_code == expect, answer.json()
    return answer.json()


def actions(answer) -> list[str]:
    return [item["action"] for item in answer["items"]]


def test_the_first_time_creates_and_the_second_changes_nothing(tenant, device):
    assert actions(apply(tenant)) == ["create"] * 4
    assert actions(apply(tenant)) == ["unchanged"] * 4
    app = App.objects.get()
    assert (app.cpu_millis, app.memory_mib, app.gpu, app.gpu_kind) == (500, 1024, 1, "l4")
    assert not Deployment.objects.exists()


def test_a_change_is_told_field_by_field_with_secrets_masked(tenant, device):
    apply(tenant)
    changed = MANIFEST.replace('tag: "1"', 'tag: "2"').replace("hidden", "other").replace("s3cr3t", "new")
    answer = apply(tenant, changed)
    assert actions(answer) == ["unchanged", "update", "unchanged", "update"]
    app = next(item for item in answer["items"] if item["kind"] == "Application")
    assert app["changes"]["tag"] == {"before": "1", "after": "2"}
    text = str(answer)
    assert not any(secret in text for secret in ("hidden", "other", "s3cr3t", "pa55"))


def test_a_dry_run_writes_nothing_and_says_whether_it_fits_node_by_node(tenant, device):
    full = make_node("gpu-2")
    make_device(full, enabled=False)
    answer = apply(tenant, query="?dry_run=true")
    assert answer["dry_run"] is True
    assert not any(model.objects.exists() for model in (App, Volume, Secret, Registry))
    fit = next(item["fit"] for item in answer["items"] if item["kind"] == "Application")
    assert fit["fits"] is True
    assert {node["node"]: node["fits"] for node in fit["nodes"]} == {"gpu-1": True, "gpu-2": False}
    assert "1 not enabled" in next(node["reason"] for node in fit["nodes"] if not node["fits"])


def test_a_dry_run_refuses_what_applying_would_refuse(tenant, device, workspace):
    workspace.plan.gpu_allowed = False
    workspace.plan.save()
    assert apply(tenant, query="?dry_run=true", expect=403)["code"] == "gpu_not_allowed"
    assert apply(tenant, expect=403)["code"] == "gpu_not_allowed"
    assert not Volume.objects.exists()


def test_one_bad_document_applies_none(tenant, device):
    answer = apply(tenant, MANIFEST.replace("cpu: 500m", "cpu: plenty"), expect=400)
    assert answer["code"] == "manifest_invalid"
    assert answer["detail"].startswith("line 26: spec.resources.cpu: ")
    assert not Volume.objects.exists()


def test_with_deploy_what_was_created_is_deployed_once(tenant, device):
    assert apply(tenant, query="?deploy=true")["items"][-1]["deployment"] == 1
    assert apply(tenant, query="?deploy=true")["items"][-1]["deployment"] is None
    assert Deployment.objects.count() == 1


def test_the_app_as_a_manifest_recreates_it(tenant, device):
    apply(tenant)
    text = tenant.get("/api/v1/workspaces/vision/apps/inference/manifest").content.decode()
    assert "hidden" not in text
    assert actions(apply(tenant, text)) == ["unchanged"]
    App.objects.all().delete()
    assert actions(apply(tenant, text.replace("KEY: null", "KEY: hidden"))) == ["create"]
    assert App.objects.get().env == {"MODEL": "llama", "KEY": "hidden"}


def test_a_secret_may_be_left_out_where_it_is_stored(tenant, device):
    apply(tenant)
    assert actions(apply(tenant, MANIFEST.replace(", KEY: hidden", ""))) == ["unchanged"] * 4
    assert App.objects.get().env == {"MODEL": "llama", "KEY": "hidden"}


def test_the_manifest_as_json_can_be_applied_as_it_is(tenant, device):
    apply(tenant)
    url = "/api/v1/workspaces/vision"
    told = tenant.get(f"{url}/apps/inference/manifest", headers={"accept": "application/json"}).json()
    answer = tenant.post(f"{url}/manifests/apply", told)
    assert (answer.status_code, actions(answer.json())) == (200, ["unchanged"])


def test_values_are_taken_as_they_are_written(tenant, device):
    apply(tenant, MANIFEST.replace('tag: "1"', "tag: 1.10").replace("MODEL: llama", "V: 1.10, M: 0755, Y: yes, P: 80"))
    app = App.objects.get()
    assert app.tag == "1.10"
    assert app.env == {"V": "1.10", "M": "0755", "Y": "yes", "P": "80", "KEY": "hidden"}


def test_a_tag_that_looks_like_a_number_survives_being_rendered(tenant, device):
    apply(tenant, MANIFEST.replace('tag: "1"', 'tag: "1.10"'))
    text = tenant.get("/api/v1/workspaces/vision/apps/inference/manifest").content.decode()
    assert actions(apply(tenant, text)) == ["unchanged"]


def test_an_ambiguous_kind_is_told_when_it_is_applied(tenant):
    node = make_node()
    for model in ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"):
        make_device(node, model=model)
    answer = apply(tenant, MANIFEST.replace("gpuKind: l4", "gpuKind: a100"))
    (warning,) = answer["items"][-1]["warnings"]
    assert "a100 is served by" in warning


def test_a_dry_run_finds_an_app_that_exists_and_its_own_cards(tenant, device):
    apply(tenant, query="?deploy=true")
    fit = apply(tenant, query="?dry_run=true")["items"][-1]["fit"]
    assert fit["fits"] is True


def test_a_refused_deploy_takes_the_declarations_back(tenant, device):
    device.enabled = False
    device.save()
    answer = apply(tenant, MANIFEST.replace(", gpuKind: l4", ""), query="?deploy=true", expect=409)
    assert answer["code"] == "gpu_no_device"
    assert answer["detail"].startswith("Application inference: ")
    assert not any(model.objects.exists() for model in (App, Volume, Secret, Registry, Deployment))


def test_changed_labels_of_a_volume_leave_a_trace(tenant, device):
    apply(tenant)
    answer = apply(tenant, MANIFEST.replace("{name: models}", "{name: models, labels: {team: vision}}"))
    assert actions(answer) == ["update", "unchanged", "unchanged", "unchanged"]
    assert AuditEvent.objects.get(verb="volume.change").after == {"labels": {"team": "vision"}}


def test_a_secret_value_that_was_never_stored_must_be_given(tenant, device):
    answer = apply(tenant, MANIFEST.replace("KEY: hidden", "KEY: null"), expect=400)
    assert "KEY has no stored value" in answer["detail"]


def test_leaving_a_field_out_resets_it(tenant, device):
    apply(tenant)
    apply(tenant, MANIFEST.replace("gpu: 1, gpuKind: l4", "gpu: 0"))
    assert (App.objects.get().gpu, App.objects.get().gpu_kind) == (0, "")


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a: \x00", b""])
def test_what_is_no_manifest_is_malformed_and_no_fault(tenant, body):
    answer = tenant.post("/api/v1/workspaces/vision/manifests/apply", body, content_type="application/yaml")
    assert answer.status_code == 400


def test_a_viewer_may_not_apply(workspace, device):
    client = APIClient()
    client.force_authenticate(make_member(workspace, "viewer"))
    assert apply(client, expect=403)["code"] == "role_too_low"

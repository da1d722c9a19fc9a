"""The OpenAPI document against the API itself: schemathesis asks everything, as operator and tenant."""

from __future__ import annotations

import pytest
import schemathesis
from celery import current_app
from django.core.signals import request_finished, request_started
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps_runtime import lifecycle
from apps_runtime.models import Registry, Secret, Volume
from gpus.models import GpuDevice, Node
from miabi.wsgi import application
from plans.models import Plan
from tests.factories import make_app, make_device, make_member, make_node, make_operator, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, User, Workspace
from workspaces.tokens import create_token

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

KNOWN = {"workspace_slug": "demo", "slug": "demo", "app_name": "web", "name": "web", "username": "guest", "number": 1}
"""Names that exist, for what the path asks for: random ones would never reach behind the look-up."""


@pytest.fixture
def rows(db, settings, monkeypatch) -> Workspace:
    # Requests share the test's transaction, as they do with Django's own test client.
    for signal in (request_started, request_finished):
        monkeypatch.setattr(signal, "receivers", [])
        signal.sender_receivers_cache.clear()
    settings.MIABI_GPU_ENABLED = True
    monkeypatch.setattr(current_app, "send_task", lambda *args, **kwargs: None)
    workspace = make_workspace("demo")
    node = make_node("virtual")
    make_device(node)
    app = make_app(workspace, "web", gpu=1)
    lifecycle.request_deploy(app, actor=PLATFORM)
    Volume.objects.create(workspace=workspace, name="web")
    Secret.objects.create(workspace=workspace, name="web", data={"KEY": "value"}, keys=["KEY"])
    Registry.objects.create(workspace=workspace, name="web", server="registry.example.com", username="u", password="p")
    guest = make_member(workspace, "viewer", "guest")
    create_token(guest, name="guests", workspace=workspace, actor=PLATFORM)
    return workspace


@pytest.fixture
def operator_token(rows) -> str:
    return create_token(make_operator("root"), name="t", workspace=None, scope=ApiToken.Scope.WRITE, actor=PLATFORM)[1]


@pytest.fixture
def tenant_token(rows) -> str:
    tenant = make_member(rows, "owner", "tenant")
    return create_token(tenant, name="t", workspace=rows, scope=ApiToken.Scope.WRITE, actor=PLATFORM)[1]


schema = schemathesis.openapi.from_wsgi("/api/v1/schema?format=json", application)
# A tenant's requests to operators' addresses end at the door: see test_operators_addresses.
tenants_schema = schema.exclude(path_regex="^/api/v1/admin/")
few = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


def _put_known_names(case: Case) -> None:
    """Odd values in paths have tests of their own (``test_odd_paths``)."""
    known: dict[str, object] = {
        **KNOWN,
        "node_id": Node.objects.values_list("pk", flat=True).first(),
        "gpu_id": GpuDevice.objects.values_list("pk", flat=True).first(),
        "token_id": ApiToken.objects.filter(name="guests").values_list("pk", flat=True).first(),
        "id": (Plan if "/plans/" in case.operation.path else User).objects.values_list("pk", flat=True).first(),
    }
    case.path_parameters = {name: known.get(name) or value for name, value in (case.path_parameters or {}).items()}


@pytest.mark.slow
@pytest.mark.timeout(600)
@schema.parametrize()
@few
def test_an_operator_gets_only_documented_answers(case: Case, operator_token):
    _put_known_names(case)
    case.call_and_validate(headers={"Authorization": f"Bearer {operator_token}"}, checks=CHECKS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@tenants_schema.parametrize()
@few
def test_a_tenant_gets_only_documented_answers(case: Case, tenant_token):
    _put_known_names(case)
    case.call_and_validate(headers={"Authorization": f"Bearer {tenant_token}"}, checks=CHECKS)

"""Images that only one workspace has credentials for."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle, steps
from apps_runtime.images import registry_of
from apps_runtime.models import Deployment, Registry
from engines.virtual.faults import Fault
from tests.factories import make_app, make_workspace
from workspaces.audit import PLATFORM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("wakes")]

PRIVATE = "registry.example.com/acme/app"


@pytest.fixture
def owner(host) -> Workspace:
    host.registry_logins["registry.example.com/acme/"] = ("ci", "pa55")
    workspace = make_workspace("owner")
    give_credentials(workspace)
    assert deploy(workspace).state == "running"
    return workspace


def give_credentials(workspace: Workspace, server: str = "registry.example.com") -> None:
    Registry.objects.create(workspace=workspace, name="acme", server=server, username="ci", password="pa55")


def deploy(workspace: Workspace, image: str = PRIVATE) -> Deployment:
    app = make_app(workspace, image=image)
    lifecycle.request_deploy(app, actor=PLATFORM)
    steps.advance(app.pk)
    return app.deployments.get()


@pytest.mark.both_databases
def test_a_private_image_that_another_workspace_pulled_is_not_run_without_credentials(owner):
    deployment = deploy(make_workspace())
    assert (deployment.state, deployment.reason_code) == ("failed", "image_unavailable")


def test_with_credentials_of_its_own_a_workspace_pulls_it_once_and_then_has_it(owner, host):
    workspace = make_workspace()
    give_credentials(workspace)
    assert deploy(workspace).state == "running"
    host.faults.add(Fault("error", "pull", times=None))
    assert deploy(workspace).state == "running"


def test_its_owner_needs_the_registry_no_more(owner, host):
    host.faults.add(Fault("error", "pull", times=None))
    assert deploy(owner).state == "running"


def test_a_public_image_on_the_node_is_run_by_all(owner, host):
    assert deploy(make_workspace(), "registry.example.com/public/app").state == "running"
    assert deploy(make_workspace(), "registry.example.com/public/app").state == "running"


def test_credentials_of_docker_hub_serve_names_without_a_server(host):
    host.registry_logins["acme/"] = ("ci", "pa55")
    workspace = make_workspace()
    give_credentials(workspace, "docker.io")
    assert deploy(workspace, "acme/private").state == "running"


@pytest.mark.parametrize(
    ("reference", "server"),
    [
        ("python:3", "docker.io"),
        ("acme/app:1", "docker.io"),
        ("docker.io/acme/app:1", "docker.io"),
        ("localhost/app", "localhost"),
        ("registry:5000/app@sha256:0", "registry:5000"),
        ("registry.example.com/acme/app", "registry.example.com"),
    ],
)
def test_the_server_is_what_an_engine_reads_in_the_name(reference, server):
    assert registry_of(reference) == server

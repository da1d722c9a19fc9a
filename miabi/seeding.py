"""What the first start makes: an operator, two plans, a demo workspace with a tenant, one node."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.db import transaction

from engines.contract import EngineAddress, EngineError
from engines.docker import connect
from gpus.models import Node
from plans.models import Plan
from workspaces.audit import PLATFORM
from workspaces.models import ApiToken, Membership, User, Workspace
from workspaces.tokens import create_token

LOCAL_ENGINE = "unix:///var/run/docker.sock"
OPERATOR = "operator"
TENANT = "demo"


@dataclass(frozen=True, slots=True)
class FirstLogin:
    """Secrets that exist in clear only here; they are printed once."""

    operator_password: str
    tenant_password: str
    tenant_token: str
    node: str


def local_engine_answers(url: str = LOCAL_ENGINE) -> bool:
    """Whether a Docker Engine answers at ``url`` within a moment."""
    try:
        connect(EngineAddress(url, timeout_s=3.0)).facts()
    except EngineError:
        return False
    return True


def seed(*, virtual_address: str) -> FirstLogin | None:
    """Seed an empty installation; None when it has users already.

    The node is the local Docker Engine when it answers, else the virtual node that listens
    at ``virtual_address``.
    """
    docker = local_engine_answers()
    with transaction.atomic():
        if User.objects.exists():
            return None
        password, tenant_password = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
        User.objects.create_superuser(OPERATOR, password=password)
        tenant = User.objects.create_user(TENANT, password=tenant_password)
        with_gpus = Plan.objects.create(
            name="gpu", description="Up to two GPU units at once.", gpu_allowed=True, gpu_limit=2
        )
        Plan.objects.create(name="cpu", description="No GPUs.")
        workspace = Workspace.objects.create(slug="demo", name="Demo", plan=with_gpus)
        Membership.objects.create(workspace=workspace, user=tenant, role="owner")
        _, token = create_token(tenant, name="first", workspace=workspace, scope=ApiToken.Scope.WRITE, actor=PLATFORM)
        node = Node.objects.create(
            name="local" if docker else "virtual",
            engine=Node.Engine.DOCKER if docker else Node.Engine.VIRTUAL,
            address=LOCAL_ENGINE if docker else virtual_address,
        )
    return FirstLogin(password, tenant_password, token, node.name)

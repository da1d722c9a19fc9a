"""Leases that an ended deployment still holds."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.utils import timezone

from apps_runtime import leases, lifecycle
from apps_runtime.models import Deployment
from tests.factories import make_app, make_device, make_node, make_workspace
from tests.parallel import in_parallel
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases, pytest.mark.usefixtures("wakes")]


def end(deployment: Deployment) -> None:
    with transaction.atomic():
        leases.end(deployment)


def test_two_passes_at_once_count_a_lease_off_once():
    device = make_device(make_node(), mode="shared", max_shares=8)
    apps = [make_app(make_workspace(), gpu=1) for _ in range(6)]
    ended, *_ = [lifecycle.request_deploy(app, actor=PLATFORM) for app in apps]
    Deployment.objects.filter(pk=ended.pk).update(state="failed", ended_at=timezone.now())

    in_parallel(end, [ended] * 4)

    device.refresh_from_db()
    assert device.held == device.leases.count() == 5

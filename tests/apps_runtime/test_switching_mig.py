"""A card whose MIG mode is switched while a container holds it."""

from __future__ import annotations

import pytest

from apps_runtime import lifecycle
from apps_runtime.admission import NoDevice
from apps_runtime.models import DeviceLease
from gpus.models import GpuDevice
from tests.factories import make_app, make_device, make_node, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]


@pytest.fixture
def card() -> GpuDevice:
    return make_device(make_node("gpu-1"))


def deploy() -> None:
    lifecycle.request_deploy(make_app(make_workspace(), gpu=1), actor=PLATFORM)


def test_no_instance_is_given_of_a_card_that_is_held_whole(card):
    deploy()
    GpuDevice.objects.update(mig_enabled=True)
    make_device(card.node, parent=card)

    with pytest.raises(NoDevice, match="1 held"):
        deploy()
    assert DeviceLease.objects.get().device == card


def test_no_card_is_given_whole_while_an_instance_of_it_is_held(card):
    instance = make_device(card.node, parent=card)
    GpuDevice.objects.filter(pk=card.pk).update(mig_enabled=True)
    deploy()
    GpuDevice.objects.filter(pk=card.pk).update(mig_enabled=False)

    with pytest.raises(NoDevice, match="2 held"):
        deploy()
    assert DeviceLease.objects.get().device == instance


def test_instances_of_one_card_are_given_to_several(card):
    GpuDevice.objects.update(mig_enabled=True)
    for _ in range(2):
        make_device(card.node, parent=card)
    deploy()
    deploy()
    assert DeviceLease.objects.values("device").distinct().count() == 2

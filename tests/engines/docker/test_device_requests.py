"""How cards are asked for."""

from __future__ import annotations

import pytest

from engines.contract import DeviceRefused, GpuAttachment
from engines.docker.device_requests import (
    DeviceRequest,
    check_cdi_names,
    device_requests,
    every_card_request,
    gpu_environment,
)

CARD = "GPU-11111111-1111-1111-1111-111111111111"
OTHER = "GPU-22222222-2222-2222-2222-222222222222"
MIG = "MIG-33333333-3333-3333-3333-333333333333"


def test_cards_are_named_one_by_one_and_never_counted() -> None:
    (request,) = device_requests(GpuAttachment((CARD, OTHER)))

    assert request == {
        "Driver": "nvidia",
        "DeviceIDs": [CARD, OTHER],
        "Capabilities": [["gpu", "compute", "utility"]],
    }


def test_the_type_of_a_device_request_has_no_count() -> None:
    assert set(DeviceRequest.__annotations__) == {"Driver", "DeviceIDs", "Capabilities"}


@pytest.mark.parametrize("attach_mode", ["device_request", "cdi"])
def test_no_gpu_means_no_device_request_at_all(attach_mode: str) -> None:
    assert device_requests(None, attach_mode=attach_mode) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (frozenset(), ["gpu", "utility"]),
        (frozenset({"compute"}), ["gpu", "compute", "utility"]),
        (frozenset({"video", "graphics"}), ["gpu", "graphics", "utility", "video"]),
    ],
)
def test_the_capabilities_always_have_gpu_and_utility(asked: frozenset[str], sent: list[str]) -> None:
    attachment = GpuAttachment((CARD,), asked)

    assert device_requests(attachment)[0]["Capabilities"] == [sent]
    assert gpu_environment(attachment)["NVIDIA_DRIVER_CAPABILITIES"] == ",".join(sent[1:])


@pytest.mark.parametrize("word", ["all", "gpu", "tpu", ""])
def test_a_capability_that_no_engine_knows_is_an_error(word: str) -> None:
    with pytest.raises(ValueError, match="unknown NVIDIA driver capabilities"):
        device_requests(GpuAttachment((CARD,), frozenset({word})))


def test_a_mig_instance_is_asked_for_by_its_own_uuid() -> None:
    assert device_requests(GpuAttachment((MIG,)))[0]["DeviceIDs"] == [MIG]


def test_cdi_devices_are_asked_for_by_qualified_name() -> None:
    assert device_requests(GpuAttachment((CARD, MIG)), attach_mode="cdi") == [
        {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={CARD}", f"nvidia.com/gpu={MIG}"]}
    ]


def test_every_card_is_a_request_of_its_own_kind() -> None:
    assert every_card_request() == [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "utility"]]}]
    assert every_card_request("cdi") == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]


def test_visible_devices_are_the_uuids_or_void_and_never_left_out() -> None:
    assert gpu_environment(GpuAttachment((CARD, OTHER)))["NVIDIA_VISIBLE_DEVICES"] == f"{CARD},{OTHER}"
    assert gpu_environment(None)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_card_missing_from_the_cdi_specs_is_refused_by_name() -> None:
    with pytest.raises(DeviceRefused, match=f"nvidia.com/gpu={OTHER}"):
        check_cdi_names(GpuAttachment((CARD, OTHER)), ["nvidia.com/gpu=all", f"nvidia.com/gpu={CARD}"])


def test_a_card_in_the_cdi_specs_passes() -> None:
    check_cdi_names(GpuAttachment((CARD,)), [f"nvidia.com/gpu={CARD}"])


def test_an_engine_that_tells_no_cdi_devices_is_not_one_that_has_none() -> None:
    check_cdi_names(GpuAttachment((CARD,)), [])

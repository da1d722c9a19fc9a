"""What a container sees against what it was granted."""

from dataclasses import replace

import pytest

from apps_runtime.verification import judge_inside, judge_record
from engines.contract import ContainerPhase, ContainerStatus

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
M = "MIG-cccccccc-0000-0000-0000-000000000003"

STATUS = ContainerStatus(
    id="c1",
    name="miabi-vision-app-1-1",
    image="busybox",
    labels={},
    phase=ContainerPhase.RUNNING,
    exit_code=None,
    oom_killed=False,
    error="",
    started_at=None,
    finished_at=None,
    health="",
    requested_devices=(),
    visible_devices_env="void",
    host_ports={},
)


def listing(*lines: str) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def test_exactly_the_granted_cards_are_right_in_any_order():
    seen = listing(f"GPU 0: NVIDIA L4 (UUID: {B})", f"GPU 1: NVIDIA L4 (UUID: {A})")
    assert judge_inside(seen, [A, B]).ok


def test_one_card_more_is_a_breach():
    seen = listing(f"GPU 0: NVIDIA L4 (UUID: {A})", f"GPU 1: NVIDIA L4 (UUID: {B})")
    verdict = judge_inside(seen, [A])
    assert not verdict.ok
    assert "1 device(s) it was not granted" in verdict.sentence
    assert B not in verdict.sentence
    assert B in verdict.operator_detail


def test_one_card_less_is_a_breach():
    assert not judge_inside(listing(f"GPU 0: NVIDIA L4 (UUID: {A})"), [A, B]).ok


def test_another_card_is_a_breach():
    assert not judge_inside(listing(f"GPU 0: NVIDIA L4 (UUID: {B})"), [A]).ok


def test_no_devices_found_is_a_breach():
    assert not judge_inside(b"No devices were found\n", [A]).ok


def test_a_mig_instance_is_seen_below_its_card():
    seen = listing(f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})", f"  MIG 1g.10gb     Device  0: (UUID: {M})")
    assert judge_inside(seen, [M]).ok
    assert not judge_inside(seen, [A]).ok


def test_a_banner_around_the_list_does_not_matter():
    seen = b"== CUDA ==\nContainer image Copyright (c) NVIDIA\n" + listing(f"GPU 0: NVIDIA L4 (UUID: {A})")
    assert judge_inside(seen, [A]).ok


def test_the_record_names_the_granted_devices():
    status = replace(STATUS, requested_devices=(A,), visible_devices_env=A)
    assert judge_record(status, [A]).ok
    assert not judge_record(status, [B]).ok
    assert not judge_record(status, [A, B]).ok


def test_a_cdi_name_counts_as_its_device():
    status = replace(STATUS, requested_devices=(f"nvidia.com/gpu={A}",), visible_devices_env=A)
    assert judge_record(status, [A]).ok


def test_without_a_grant_only_void_is_right():
    assert judge_record(STATUS, []).ok
    for value in ("all", None, "", A):
        assert not judge_record(replace(STATUS, visible_devices_env=value), []).ok


def test_an_environment_that_says_more_than_the_request_is_a_breach():
    assert not judge_record(replace(STATUS, requested_devices=(A,), visible_devices_env="all"), [A]).ok


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "output",
    [b"\n" * 1_000_000, b"GPU 0: (UUID:GPU-a" + b"(UUID:GPU-a" * 90_000, b"GPU " * 250_000],
    ids=["blank-lines", "one-line-of-beginnings", "one-line-of-words"],
)
def test_a_container_that_prints_a_great_deal_does_not_keep_the_worker_busy(output):
    # In time that grows with the square of the length this would take hours.
    assert not judge_inside(output, [A]).ok

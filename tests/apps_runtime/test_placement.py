"""Which devices serve a demand, and the sentence when they do not."""

from typing import Any

import pytest

from apps_runtime.placement import Choice, Demand, Device, PassedOver, Shortfall, choose, explain


def device(number: int, **changes) -> Device:
    values: dict[str, Any] = {
        "id": number,
        "uuid": f"GPU-{number}",
        "vendor": "nvidia",
        "model": "NVIDIA L4",
        "index": number,
        "enabled": True,
        "present": True,
        "healthy": True,
        "mig_enabled": False,
        "shared": False,
        "slots": 1,
    }
    return Device(**(values | changes))


def held(number: int, **changes) -> Device:
    return device(number, taken=frozenset({0}), **changes)


def chosen(devices, demand) -> list[tuple[int, int]]:
    outcome = choose(devices, demand)
    assert isinstance(outcome, Choice)
    return [(grant.device_id, grant.slot) for grant in outcome.grants]


def reasons(devices, demand) -> dict[PassedOver, int]:
    outcome = choose(devices, demand)
    assert isinstance(outcome, Shortfall)
    return dict(outcome.passed_over)


def test_a_free_card_is_given_whole():
    assert chosen([held(1), device(2)], Demand(1)) == [(2, 0)]


def test_all_or_nothing():
    outcome = choose([device(1), held(2), device(3)], Demand(3))
    assert isinstance(outcome, Shortfall)
    assert (outcome.exist, outcome.enabled, outcome.free) == (3, 3, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"enabled": False}, PassedOver.NOT_ENABLED),
        ({"present": False}, PassedOver.MISSING),
        ({"healthy": False}, PassedOver.UNHEALTHY),
        ({"mig_enabled": True}, PassedOver.MIG_PARENT),
        ({"model": "NVIDIA A100-SXM4-80GB"}, PassedOver.OTHER_KIND),
        ({"taken": frozenset({0})}, PassedOver.HELD),
    ],
)
def test_what_may_not_be_given_is_passed_over_with_its_reason(changes, reason):
    assert reasons([device(1, **changes)], Demand(1, "l4")) == {reason: 1}


def test_the_least_loaded_shared_card_comes_first():
    shared = {"shared": True, "slots": 3}
    devices = [device(1, taken=frozenset({1, 2}), **shared), device(2, taken=frozenset({2}), **shared)]
    assert chosen(devices, Demand(1)) == [(2, 1)]


def test_a_shared_card_is_full_at_its_shares():
    full = device(1, shared=True, slots=2, taken=frozenset({1, 2}))
    assert reasons([full], Demand(1)) == {PassedOver.HELD: 1}


def test_two_units_are_two_different_cards_even_when_one_card_has_shares_left():
    assert isinstance(choose([device(1, shared=True, slots=4)], Demand(2)), Shortfall)


def test_a_redeploy_inherits_the_cards_it_has():
    outcome = choose([device(1), held(2, own=frozenset({0}))], Demand(1))
    assert isinstance(outcome, Choice)
    assert [(grant.device_id, grant.inherited) for grant in outcome.grants] == [(2, True)]


def test_a_redeploy_does_not_inherit_a_card_that_was_disabled():
    outcome = choose([device(1), held(2, own=frozenset({0}), enabled=False)], Demand(1))
    assert isinstance(outcome, Choice)
    assert [(grant.device_id, grant.inherited) for grant in outcome.grants] == [(1, False)]


def test_a_kind_is_matched_by_whole_tokens():
    devices = [
        device(1, model="NVIDIA A100-SXM4-80GB"),
        device(2, model="NVIDIA L40S"),
        device(3, model="NVIDIA H200"),
    ]
    for kind in ("A10", "L4", "H20"):
        assert reasons(devices, Demand(1, kind)) == {PassedOver.OTHER_KIND: 3}
    assert chosen(devices, Demand(1, "a100")) == [(1, 0)]


def test_the_sentence_tells_counts_and_reasons():
    devices = [device(1, enabled=False), held(2), held(3), device(4, model="NVIDIA T4")]
    outcome = choose(devices, Demand(1, "l4"))
    assert isinstance(outcome, Shortfall)
    assert explain("gpu-1", outcome) == (
        "Node gpu-1 cannot give 1 device of kind l4 now: 4 exist, 2 enabled and matching, 0 free "
        "(2 held, 1 not enabled, 1 of another kind)."
    )

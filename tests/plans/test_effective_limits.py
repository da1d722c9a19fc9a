"""Effective limits: a plan's, with a workspace's overrides in their place."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from plans.limits import UNLIMITED, Limits, Overrides, SecurityProfile, effective, exceeds

PLAN = Limits(
    gpu_allowed=True,
    gpu_limit=4,
    cpu_limit=8000,
    memory_limit=16384,
    app_limit=10,
    security_profile=SecurityProfile.DEFAULT,
    max_lease_hours=24,
)


def test_without_overrides_the_plan_holds():
    assert effective(PLAN, Overrides()) == PLAN


def test_every_limit_of_a_plan_can_be_overridden():
    assert {field.name for field in fields(Overrides)} == {field.name for field in fields(Limits)}


@pytest.mark.parametrize("name", ["gpu_limit", "cpu_limit", "memory_limit", "app_limit", "max_lease_hours"])
@pytest.mark.parametrize("value", [0, 1, UNLIMITED])
def test_an_override_wins_also_when_it_is_zero_or_unlimited(name, value):
    assert effective(PLAN, Overrides(**{name: value})) == replace(PLAN, **{name: value})


def test_an_override_takes_gpus_away_and_gives_them():
    assert effective(PLAN, Overrides(gpu_allowed=False)).gpu_units == 0
    poor = replace(PLAN, gpu_allowed=False)
    assert poor.gpu_units == 0
    assert effective(poor, Overrides(gpu_allowed=True)).gpu_units == 4


def test_the_platform_wide_restriction_wins_over_an_override():
    told = effective(PLAN, Overrides(security_profile=SecurityProfile.DEFAULT), force_restricted=True)
    assert told.security_profile is SecurityProfile.RESTRICTED


@pytest.mark.parametrize(
    ("limit", "used", "requested", "over"),
    [
        (2, 0, 2, False),
        (2, 1, 2, True),
        (0, 0, 1, True),
        (0, 0, 0, False),
        (UNLIMITED, 10_000, 10_000, False),
        # A limit lowered below what is held refuses more, and nothing that asks for nothing.
        (1, 3, 0, False),
        (1, 3, 1, True),
    ],
)
def test_a_limit_is_passed_by_asking_for_more_than_is_left(limit, used, requested, over):
    assert exceeds(limit, used, requested) is over

"""Kinds are matched by whole words of a model's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpus.kinds import check_kind, known_kinds, matches_kind, models_of, tokens

MODELS = [
    ("nvidia", "Tesla T4"),
    ("nvidia", "NVIDIA A10"),
    ("nvidia", "NVIDIA A10G"),
    ("nvidia", "NVIDIA A100-SXM4-80GB"),
    ("nvidia", "NVIDIA L4"),
    ("nvidia", "NVIDIA L40S"),
    ("nvidia", "NVIDIA H200"),
    ("nvidia", "NVIDIA GeForce RTX 3060"),
    ("amd", "AMD Instinct MI300X"),
]


@pytest.mark.parametrize(
    ("kind", "models"),
    [
        ("A10", ["NVIDIA A10"]),
        ("a100", ["NVIDIA A100-SXM4-80GB"]),
        ("L4", ["NVIDIA L4"]),
        ("H20", []),
        ("h200", ["NVIDIA H200"]),
        ("nvidia t4", ["Tesla T4"]),
        ("Tesla T4", ["Tesla T4"]),
        ("nvidia-l4", ["NVIDIA L4"]),
        ("rtx 3060", ["NVIDIA GeForce RTX 3060"]),
        ("RTX3060", []),
        ("80gb", ["NVIDIA A100-SXM4-80GB"]),
        ("amd", ["AMD Instinct MI300X"]),
        ("amd t4", []),
        ("4", []),
        ("A1", []),
    ],
)
def test_a_kind_finds_these_models_and_no_other(kind, models):
    assert [model for vendor, model in MODELS if matches_kind(model, vendor, kind)] == models


def test_a_vendor_word_finds_all_of_the_vendor_and_nothing_finds_all():
    assert models_of("NVIDIA", MODELS) == sorted(model for vendor, model in MODELS if vendor == "nvidia")
    assert len(models_of("", MODELS)) == len(MODELS)


@pytest.mark.parametrize("kind", ["---", ".", "\u00e9", "\u0664"])
def test_a_kind_without_a_word_finds_nothing_rather_than_everything(kind):
    assert models_of(kind, MODELS) == []


def test_a_kind_of_several_models_tells_them_all():
    models = [("nvidia", "NVIDIA A100-SXM4-40GB"), *MODELS]
    assert models_of("a100", models) == ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"]
    assert models_of("a100 40gb", models) == ["NVIDIA A100-SXM4-40GB"]


@given(st.lists(st.sampled_from(MODELS)), st.text(max_size=70))
def test_every_kind_that_people_are_told_can_be_asked_for_and_finds_a_device(models, noise):
    told = known_kinds([*models, ("nvidia", f"NVIDIA {noise[:20]}")])
    for kind in told:
        assert models_of(check_kind(kind), [*models, ("nvidia", f"NVIDIA {noise[:20]}")])


@given(st.text(max_size=70))
def test_a_kind_is_refused_or_means_something(kind):
    try:
        asked = check_kind(kind)
    except ValueError:
        return
    assert not asked or tokens(asked)


def test_a_mig_instance_is_found_by_its_profile():
    assert matches_kind("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "nvidia", "1g.10gb")
    assert not matches_kind("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "nvidia", "1g.20gb")
    assert matches_kind("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", "nvidia", check_kind("1g.10gb+me"))


def test_people_are_told_vendors_and_short_names():
    assert known_kinds(MODELS[:2] + MODELS[-1:]) == ["amd", "nvidia", "a10", "instinct mi300x", "t4"]


@pytest.mark.parametrize("kind", ["../etc", "l4;drop", "x" * 65, "\u00e9"])
def test_what_is_no_kind_is_refused_with_a_sentence(kind):
    with pytest.raises(ValueError, match="is no GPU kind"):
        check_kind(kind)


def test_blanks_around_a_kind_do_not_matter():
    assert check_kind("  nvidia   t4 ") == "nvidia t4"

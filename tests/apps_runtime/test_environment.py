"""Environment variables a tenant may set."""

from __future__ import annotations

import pytest

from apps_runtime.environment import MAX_KEYS, MAX_TOTAL, MAX_VALUE, EnvReserved, check_env


@pytest.mark.parametrize(
    "key",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "nvidia_visible_devices",
        "Nvidia_Driver_Capabilities",
        "NVIDIA_",
        "NVIDIA_\nX",
        " NVIDIA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "cuda_visible_devices",
        "MIABI_GPU_UUIDS",
        "miabi_x",
    ],
)
def test_the_platforms_variables_are_refused_by_name_in_any_case(key):
    with pytest.raises(EnvReserved) as refused:
        check_env({"A": "1", key: "all"})
    assert refused.value.attr == f"env.{key}"
    assert key in refused.value.detail


@pytest.mark.parametrize("key", ["A", "_x", "a.b-c", "CUDA_VISIBLE_DEVICES_COUNT", "MY_NVIDIA_KEY", "MIABI"])
def test_others_may_be_set(key):
    check_env({key: "x"})


@pytest.mark.parametrize("key", ["", "1A", "A=B", "A B", "é", "A\x00", "A\n", "a" * 129])
def test_what_is_no_name_is_refused(key):
    with pytest.raises(ValueError, match="no name of an environment variable"):
        check_env({key: "x"})


def test_sizes_are_bytes_and_bounded():
    check_env({"A": "é" * (MAX_VALUE // 2)})
    with pytest.raises(ValueError, match="A is longer than"):
        check_env({"A": "é" * (MAX_VALUE // 2 + 1)})
    with pytest.raises(ValueError, match="together"):
        check_env({f"K{number}": "a" * MAX_VALUE for number in range(MAX_TOTAL // MAX_VALUE)})
    with pytest.raises(ValueError, match=f"at most {MAX_KEYS}"):
        check_env({f"K{number}": "" for number in range(MAX_KEYS + 1)})

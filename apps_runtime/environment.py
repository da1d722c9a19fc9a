"""Environment variables a tenant may set. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from refusals import PolicyRefusal

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}\Z", re.ASCII)
_RESERVED = re.compile(r"(NVIDIA_.*|CUDA_VISIBLE_DEVICES|MIABI_.*)\Z", re.IGNORECASE | re.DOTALL)
MAX_KEYS = 256
MAX_VALUE = 32 * 1024
MAX_TOTAL = 128 * 1024


class EnvReserved(PolicyRefusal):
    code = "env_reserved"


def is_reserved(key: str) -> bool:
    """Whether only the platform may set it, in any case of letters.

    ``NVIDIA_VISIBLE_DEVICES=all`` set by a tenant gives every card of a node whose default
    runtime is nvidia, so the whole prefix is the platform's.
    """
    return bool(_RESERVED.match(key.strip()))


def check_env(env: Mapping[str, str], *, attr: str = "env") -> None:
    """Check keys and sizes.

    Raises:
        EnvReserved: a key is the platform's (422).
        ValueError: a key or a size that no container could have, with a sentence.
    """
    for key in env:
        if is_reserved(key):
            raise EnvReserved(
                f"{key} is set by the platform: NVIDIA_*, CUDA_VISIBLE_DEVICES and MIABI_* are reserved in any case. "
                "Remove it; what an app was granted stands in MIABI_GPU_COUNT and MIABI_GPU_UUIDS.",
                attr=f"{attr}.{key}",
            )
        if not _KEY.match(key):
            raise ValueError(f"{key[:80]!r} is no name of an environment variable.")
        if _size(env[key]) > MAX_VALUE:
            raise ValueError(f"The value of {key} is longer than {MAX_VALUE} bytes.")
    if len(env) > MAX_KEYS:
        raise ValueError(f"There are {len(env)} variables, at most {MAX_KEYS} are possible.")
    if sum(len(key) + _size(value) for key, value in env.items()) > MAX_TOTAL:
        raise ValueError(f"The variables together are longer than {MAX_TOTAL} bytes.")


def check_secret_data(data: Mapping[str, str]) -> None:
    """A secret's values become variables too, so the same holds. Raises EnvReserved, ValueError."""
    check_env(data, attr="data")


def _size(value: str) -> int:
    """What the kernel counts: bytes, not characters."""
    return len(value.encode())

"""What a test does when this machine lacks a part that it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def need(reason: str) -> NoReturn:
    """Skip the test with ``reason``; on a build server fail it.

    There every part is installed first: a part that is missing would leave the test unrun
    without anybody noticing.
    """
    if in_ci():
        pytest.fail(f"missing here, and under CI nothing may be: {reason}", pytrace=False)
    pytest.skip(reason)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}

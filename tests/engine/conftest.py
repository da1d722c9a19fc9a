"""Everything in this folder runs on a real Docker Engine with virtual cards."""

from __future__ import annotations

import pytest

from tests.services.fleet import Fleet


@pytest.fixture(autouse=True)
def _four_cards(fleet: Fleet) -> None:
    """Each test begins with the whole fleet, and leaves it whole."""

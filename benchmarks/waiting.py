"""Wait for a deployment's state by looking at its row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps_runtime.models import Deployment

LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120


def until(app: str, number: int, wanted: str) -> Deployment:
    """The row once it is ``wanted``. Raises RuntimeError when it fails or takes too long."""
    from apps_runtime.models import Deployment

    rows = Deployment.objects.filter(app__name=app, number=number)
    deadline = time.monotonic() + PATIENCE_SECONDS
    state = ""
    while time.monotonic() < deadline:
        state = rows.values_list("state", flat=True).get()
        if state == wanted:
            return rows.get()
        if state == "failed":
            raise RuntimeError(f"a deploy failed: {rows.get().reason}")
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"still {state} and not {wanted} after {PATIENCE_SECONDS} s")

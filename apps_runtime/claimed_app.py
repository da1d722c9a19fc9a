"""An app under one worker's claim, and the transaction in which results are applied."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import transaction

from apps_runtime.models import App
from gpus.claims import ClaimLost


@dataclass(slots=True)
class ClaimedApp:
    app_id: int
    token: uuid.UUID
    created_here: set[int] = field(default_factory=set)
    """Deployments whose container this very run created, so certainly never started before."""

    @contextmanager
    def applying(self) -> Iterator[App]:
        """A transaction with the app's row locked and the claim still ours.

        Raises ClaimLost, which drops the result of the step, when somebody took over.
        """
        with transaction.atomic():
            app = App.objects.select_for_update(no_key=True).filter(pk=self.app_id, claim_token=self.token).first()
            if app is None:
                raise ClaimLost
            yield app

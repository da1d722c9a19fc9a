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
    began_creating: set[int] = field(default_factory=set)
    """Deployments that this very run brought to ``creating``: no container of theirs was started before."""

    def ensure_held(self) -> None:
        """Look once more before what cannot be taken back. Raises ClaimLost."""
        if not App.objects.filter(pk=self.app_id, claim_token=self.token).exists():
            raise ClaimLost

    @contextmanager
    def applying(self) -> Iterator[None]:
        """A transaction with the app's row locked and the claim still ours.

        Raises ClaimLost, which drops the result of the step, when somebody took over.
        """
        with transaction.atomic():
            ours = App.objects.select_for_update(no_key=True).filter(pk=self.app_id, claim_token=self.token)
            if not ours.values_list("pk"):
                raise ClaimLost
            yield

"""Claims: a database row worked on by one process at a time, without a lock held.

A worker claims the row in a short transaction, talks to the outside with no
transaction open while a heartbeat renews the claim, and applies the result only if the
claim is still its own. A killed worker's claim runs out and the next one takes over:

    worker A   claim(token a) ---- act ----x killed
    worker B                     refused   |  expiry   claim(token b) ---- act ---- apply
    worker A'  (was only hung)                                   apply(token a): 0 rows, dropped
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError, connections, models
from django.db.models import Q
from django.utils import timezone

log = structlog.get_logger(__name__)


class ClaimLost(Exception):
    """Somebody else took the row over: drop the result."""


class Claimable(models.Model):
    """Fields of a row that one worker at a time may act for."""

    claim_owner = models.CharField(max_length=80, blank=True, editable=False)
    claim_token = models.UUIDField(null=True, editable=False)
    claim_expires_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True


def owner_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"[:80]


def free_now() -> Q:
    """Rows nobody holds at this moment."""
    return Q(claim_expires_at=None) | Q(claim_expires_at__lt=timezone.now())


def take(model: type[Claimable], pk: int) -> uuid.UUID | None:
    """Claim row ``pk`` for ``MIABI_CLAIM_SECONDS``; ``None`` when somebody else holds it."""
    token = uuid.uuid4()
    taken = model._default_manager.filter(free_now(), pk=pk).update(
        claim_owner=owner_name(), claim_token=token, claim_expires_at=_expiry()
    )
    return token if taken else None


def renew(model: type[Claimable], pk: int, token: uuid.UUID) -> bool:
    """Push the claim's expiry on; false when it is no longer ours."""
    return bool(model._default_manager.filter(pk=pk, claim_token=token).update(claim_expires_at=_expiry()))


def release(model: type[Claimable], pk: int, token: uuid.UUID) -> bool:
    """Give the row back; false when it was not ours any more."""
    return bool(
        model._default_manager.filter(pk=pk, claim_token=token).update(
            claim_owner="", claim_token=None, claim_expires_at=None
        )
    )


@contextmanager
def renewing(model: type[Claimable], pk: int, token: uuid.UUID) -> Iterator[None]:
    """Renew the claim in the background for as long as the block runs.

    The thread waits a third of the claim's life before its first renewal, so short
    work costs no query.
    """
    done = threading.Event()

    def beat() -> None:
        while not done.wait(settings.MIABI_CLAIM_SECONDS / 3):
            try:
                if not renew(model, pk, token):
                    return
            except DatabaseError as error:
                # The claim lives for two beats more: a database that comes back in time costs nothing.
                log.warning("claim_not_renewed", model=model.__name__, pk=pk, error=str(error))
            finally:
                # Not kept between beats: with every thread of a worker acting, their claims
                # would otherwise need as many connections again as the pool has.
                connections.close_all()

    heart = threading.Thread(target=beat, name=f"claim-{model.__name__}-{pk}", daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()


def _expiry() -> datetime:
    return timezone.now() + timedelta(seconds=settings.MIABI_CLAIM_SECONDS)

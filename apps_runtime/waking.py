"""Wake a worker for an app. The message may be lost, late or doubled: the sweep finds
every app with work left, so nothing depends on it."""

from __future__ import annotations

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)

ADVANCE_APP = "apps_runtime.tasks.advance_app"


def wake_after_commit(app_id: int) -> None:
    """Send the wake-up once the current transaction has committed."""
    transaction.on_commit(lambda: wake(app_id))


def wake(app_id: int, *, after_s: float = 0) -> None:
    """Send the wake-up now, to be acted on ``after_s`` seconds later.

    A broker that is down costs the caller a short wait and no error: the row is saved, and
    the sweep sends later.
    """
    try:
        current_app.send_task(ADVANCE_APP, (app_id,), countdown=after_s or None, expires=3600)
    except (OperationalError, OSError) as error:
        log.warning("broker_unreachable", app=app_id, error=str(error))

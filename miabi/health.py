"""``/healthz``: the process answers. ``/readyz``: what it needs answers too."""

from __future__ import annotations

from celery import current_app
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

BROKER_SECONDS = 2


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Always 200 while the process serves."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when all parts answer, else 503 that names those that do not."""
    parts = {"database": database_problem(), "migrations": "", "broker": broker_problem()}
    if not parts["database"]:
        parts["migrations"] = migrations_problem()
    failing = {name: problem for name, problem in parts.items() if problem}
    status = {
        "status": "unavailable" if failing else "ok",
        "parts": {name: parts[name] or "ok" for name in parts},
    }
    return JsonResponse(status, status=503 if failing else 200)


def database_problem() -> str:
    """Why the database cannot be used, "" when it can."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "does not answer"
    return ""


def migrations_problem() -> str:
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"{len(pending)} not applied: run 'manage.py migrate'" if pending else ""


def broker_problem() -> str:
    """Why the broker cannot be used, "" when it can. Waits a few seconds at most."""
    waits = {"socket_timeout": BROKER_SECONDS, "socket_connect_timeout": BROKER_SECONDS}
    # A broker of plain files knows no such options, and its client would choke on them.
    options = waits if "socket_timeout" in current_app.conf.broker_transport_options else {}
    try:
        # A connection of its own: one from the pool may stand since before the broker went.
        with current_app.connection_for_write(transport_options=options) as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=BROKER_SECONDS)
    except (OperationalError, OSError):
        return "does not answer: deploys are kept and begin when it is back"
    return ""

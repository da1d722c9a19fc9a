"""Lists of 10,000 rows over HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import requests

from benchmarks.report import Figure, Section, ms, p50, p99
from benchmarks.stack import Stack

if TYPE_CHECKING:
    from workspaces.models import User, Workspace

ROWS, REQUESTS, PAGES = 10_000, 100, 20


def run(stack: Stack) -> Section:
    from django.db import connection

    from apps_runtime.models import App
    from gpus.models import Node
    from tests.factories import make_member, make_operator, make_workspace

    workspace = make_workspace("large")
    App.objects.bulk_create(App(workspace=workspace, name=f"app-{n}", image="x") for n in range(ROWS))
    Node.objects.bulk_create(Node(name=f"large-{n}", address="unix:///x", schedulable=False) for n in range(ROWS))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    figures = [
        _figure(stack, "GET apps", "/api/v1/workspaces/large/apps", make_member(workspace), workspace),
        _figure(stack, "GET nodes", "/api/v1/admin/nodes", make_operator(), None),
    ]
    return Section(
        "Lists",
        f"{ROWS:,} rows each, {REQUESTS} requests over HTTP one after the other, pages 1 to {PAGES} of 50 rows. The "
        "queries are those of one such request, its authentication among them.",
        figures,
    )


def _figure(stack: Stack, what: str, path: str, user: User, scope: Workspace | None) -> Figure:
    from workspaces.audit import PLATFORM
    from workspaces.tokens import create_token

    token = create_token(user, name=what, workspace=scope, scope="read", actor=PLATFORM)[1]
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    taken = []
    for number in range(REQUESTS):
        began = time.perf_counter()
        answer = session.get(f"{stack.url}{path}?page={1 + number % PAGES}", timeout=60)
        taken.append(time.perf_counter() - began)
        if answer.status_code != 200 or answer.json()["count"] < ROWS:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:200]}")
    return Figure(what, f"p50 {ms(p50(taken))}, p99 {ms(p99(taken))}, {_queries(path, token)} queries")


def _queries(path: str, token: str) -> int:
    """Queries of one request, counted in this process with the same token and code."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        answer = Client().get(path, headers={"authorization": f"Bearer {token}", "host": "localhost"})
    if answer.status_code != 200 or not len(captured):
        raise RuntimeError(f"{path}: status {answer.status_code} with {len(captured)} queries")
    return len(captured)

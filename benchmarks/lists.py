"""Lists of 10,000 rows over HTTP, and the memory of the processes."""

from __future__ import annotations

import time

import requests

from benchmarks.report import Figure, Section, ms, p50, p99
from benchmarks.stack import Stack, memory_mib

ROWS, REQUESTS = 10_000, 60


def run(stack: Stack) -> Section:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from rest_framework.test import APIClient

    from apps_runtime.models import App
    from gpus.models import Node
    from tests.factories import make_member, make_operator, make_workspace
    from workspaces.audit import PLATFORM
    from workspaces.tokens import create_token

    idle = memory_mib(stack.processes)
    workspace = make_workspace("large")
    App.objects.bulk_create(App(workspace=workspace, name=f"app-{n}", image="x") for n in range(ROWS))
    Node.objects.bulk_create(Node(name=f"large-{n}", address="unix:///x", schedulable=False) for n in range(ROWS))
    member, operator = make_member(workspace), make_operator()
    figures = []
    for what, path, user, scope in (
        ("GET apps", "/api/v1/workspaces/large/apps", member, workspace),
        ("GET nodes", "/api/v1/admin/nodes", operator, None),
    ):
        token = create_token(user, name=what, workspace=scope, scope="read", actor=PLATFORM)[1]
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {token}"
        taken = []
        for number in range(REQUESTS):
            began = time.perf_counter()
            answer = session.get(f"{stack.url}{path}?page={1 + number % 20}", timeout=60)
            taken.append(time.perf_counter() - began)
            if answer.status_code != 200 or answer.json()["count"] < ROWS:
                raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:200]}")
        client = APIClient()
        client.force_authenticate(user)
        with CaptureQueriesContext(connection) as captured:
            client.get(path, headers={"host": "localhost"})
        figures.append(
            Figure(f"{what}, page of 50", f"p50 {ms(p50(taken))}, p99 {ms(p99(taken))}, {len(captured)} queries")
        )
    after = memory_mib(stack.processes)
    for word, memory in (("idle", idle), ("after the run", after)):
        total = sum(memory.values())
        parts = ", ".join(f"{name} {value:.0f}" for name, value in memory.items())
        figures.append(
            Figure(f"memory {word}", f"{total:.0f} MiB ({parts})", "under 300 MB together", total * 1.048576 < 300)
        )
    Node.objects.filter(name__startswith="large-").delete()
    return Section(
        "Lists and memory",
        f"{ROWS:,} rows each, {REQUESTS} requests over HTTP. Memory is the proportional set size of web, worker and "
        "beat.",
        figures,
    )

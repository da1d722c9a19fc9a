"""64 deploys and stops by 8 clients, against 8 threads of bare docker-py doing the same to the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import docker

from benchmarks.report import Figure, Section
from benchmarks.stack import Stack
from benchmarks.tenancy import Api, prepare
from benchmarks.twin import config_of, create
from benchmarks.waiting import until

CLIENTS, EACH = 8, 8


def run(stack: Stack) -> Section:
    token, names = prepare(stack.engine, CLIENTS)
    config = _settings(stack, token, names[0])

    def bare(check: bool) -> float:
        return _rate(lambda number: _bare(stack.engine, number, config, check=check))

    # Bare docker-py before and after, and the better one counts: a machine that others slow down
    # in one half must not flatter the platform.
    first = bare(False)
    with_check = bare(True)
    platform = _rate(lambda number: _platform(stack.url, token, names[number]))
    best = max(first, bare(False))
    return Section(
        "Throughput",
        f"{CLIENTS * EACH} times deploy, wait until running, stop, wait until gone, by {CLIENTS} clients over HTTP. "
        "They look at the row every 20 ms. Bare: create, start, stop and remove of containers with the same settings, "
        "before and after the platform's turn, of which the faster counts; with check: also nvidia-smi -L inside, as "
        "the platform always does.",
        [
            Figure("bare docker-py", f"{best:.2f} per second"),
            Figure("bare docker-py with the check inside", f"{with_check:.2f} per second"),
            Figure("platform", f"{platform:.2f} per second"),
            Figure("platform / bare", f"{platform / best:.2f}", "at least 0.90", platform / best >= 0.9),
            Figure("platform / bare with the check", f"{platform / with_check:.2f}"),
        ],
    )


def _settings(stack: Stack, token: str, name: str) -> dict[str, Any]:
    api = Api(stack.url, token)
    client = docker.APIClient(stack.engine, version="auto", timeout=60)
    number = api.ask(name, "deploy")["number"]
    config = config_of(client, until(name, number, "running").engine_handle)
    api.ask(name, "stop")
    until(name, number, "stopped")
    client.close()
    return config


def _rate(client: Callable[[int], None]) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    return CLIENTS * EACH / (time.perf_counter() - began)


def _bare(engine: str, number: int, config: dict[str, Any], *, check: bool) -> None:
    client = docker.APIClient(engine, version="auto", timeout=60)
    for turn in range(EACH):
        made = create(client, config, f"bare-{number}-{turn}-{time.time_ns()}")
        client.start(made)
        if check:
            client.exec_start(client.exec_create(made, ["nvidia-smi", "-L"])["Id"])
        client.stop(made, timeout=10)
        client.remove_container(made, v=True)
    client.close()


def _platform(url: str, token: str, name: str) -> None:
    from django.db import connections

    api = Api(url, token)
    for _ in range(EACH):
        number = api.ask(name, "deploy")["number"]
        until(name, number, "running")
        api.ask(name, "stop")
        until(name, number, "stopped")
    connections.close_all()

"""64 deploys and stops by 8 clients, against 8 threads of bare docker-py doing the same to the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import docker

from benchmarks.report import Figure, Section
from benchmarks.stack import Stack
from benchmarks.tenancy import COMMAND, Api, prepare

CLIENTS, EACH = 8, 8


def run(stack: Stack) -> Section:
    token, names = prepare(stack.engine, CLIENTS)
    uuid = stack.fleet.uuids[0]
    bare = _rate(lambda number: _bare(stack.engine, number, uuid, check=False))
    with_check = _rate(lambda number: _bare(stack.engine, number, uuid, check=True))
    platform = _rate(lambda number: _platform(stack.url, token, names[number]))
    again = _rate(lambda number: _bare(stack.engine, number, uuid, check=False))
    best = max(bare, again)
    return Section(
        "Throughput",
        f"{CLIENTS * EACH} times deploy, wait until running, stop, wait until gone, by {CLIENTS} clients over HTTP. "
        "Bare: create, start, stop, remove; with check: also nvidia-smi -L inside, as the platform always does.",
        [
            Figure("bare docker-py", f"{best:.2f} per second"),
            Figure("bare docker-py with the check inside", f"{with_check:.2f} per second"),
            Figure("platform", f"{platform:.2f} per second"),
            Figure("platform / bare", f"{platform / best:.2f}", "at least 0.90", platform / best >= 0.9),
            Figure("platform / bare with the check", f"{platform / with_check:.2f}"),
        ],
    )


def _rate(client: Callable[[int], None]) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    return CLIENTS * EACH / (time.perf_counter() - began)


def _bare(engine: str, number: int, uuid: str, *, check: bool) -> None:
    client = docker.APIClient(engine, version="auto", timeout=60)
    from tests.services.images import BUSYBOX

    for turn in range(EACH):
        host = client.create_host_config(
            device_requests=[docker.types.DeviceRequest(device_ids=[uuid], capabilities=[["gpu", "utility"]])],
            cap_drop=["ALL"],
        )
        made = client.create_container(
            BUSYBOX, COMMAND, host_config=host, name=f"bare-{number}-{turn}-{time.time_ns()}"
        )
        client.start(made)
        if check:
            started = client.exec_create(made, ["nvidia-smi", "-L"])
            client.exec_start(started)
        client.stop(made, timeout=10)
        client.remove_container(made, v=True)
    client.close()


def _platform(url: str, token: str, name: str) -> None:
    from django.db import connections

    from apps_runtime.models import Deployment

    api = Api(url, token)
    for _ in range(EACH):
        number = api.ask(name, "deploy")["number"]
        rows = Deployment.objects.filter(app__name=name, number=number)
        _until(rows, "running")
        api.ask(name, "stop")
        _until(rows, "stopped")
    connections.close_all()


def _until(rows: object, wanted: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        state = str(rows.values_list("state", flat=True).get())  # type: ignore[attr-defined]
        if state == wanted:
            return
        if state == "failed":
            raise RuntimeError(f"a deploy failed: {rows.get().reason}")  # type: ignore[attr-defined]
        time.sleep(0.05)
    raise RuntimeError(f"still {state} after two minutes")

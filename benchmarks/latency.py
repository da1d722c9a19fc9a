"""POST deploy to ``running`` against create and start of the same container through bare docker-py."""

from __future__ import annotations

import time
from typing import Any

import docker

from benchmarks.report import Figure, Section, ms, p50
from benchmarks.stack import Stack
from benchmarks.tenancy import Api, prepare
from benchmarks.twin import config_of, create
from benchmarks.waiting import until

ROUNDS, WARM_UP = 25, 2


def run(stack: Stack) -> Section:
    token, (name,) = prepare(stack.engine, 1)
    api = Api(stack.url, token)
    client = docker.APIClient(stack.engine, version="auto", timeout=60)
    config: dict[str, Any] = {}
    bare, whole, check = [], [], []
    for number in range(WARM_UP + ROUNDS):
        # Each side goes first in every other round, once there is a container to copy.
        if config and number % 2:
            twin = _bare(client, config, f"bare-{number}")
            took, checked, config = _platform(api, name, client)
        else:
            took, checked, config = _platform(api, name, client)
            twin = _bare(client, config, f"bare-{number}")
        if number >= WARM_UP:
            whole.append(took)
            check.append(checked)
            bare.append(twin)
    client.close()
    apart = p50([took - checked for took, checked in zip(whole, check, strict=True)])
    ratio = apart / p50(bare)
    return Section(
        "Deploy latency",
        f"Medians of {ROUNDS} rounds, interleaved, each side first in every other round, nothing else running on the "
        "engine. The platform is timed from before the client's POST to the time in the running event, which is just "
        "before that event's commit. The check is the time from the verifying event to the running event: the commit "
        "in between, the engine's record of the container, and nvidia-smi inside it.",
        [
            Figure("bare docker-py: create and start", ms(p50(bare))),
            Figure("POST deploy to running", ms(p50(whole))),
            Figure("of that, the check", ms(p50(check))),
            Figure("without the check", ms(apart)),
            Figure("ratio without the check", f"{ratio:.2f}", "at most 1.10", ratio <= 1.1),
            Figure("ratio with the check", f"{p50(whole) / p50(bare):.2f}"),
        ],
    )


def _platform(api: Api, name: str, client: docker.APIClient) -> tuple[float, float, dict[str, Any]]:
    """Seconds to running, seconds of the check, and the container's settings; it is stopped again."""
    began = time.time()
    number = api.ask(name, "deploy")["number"]
    deployment = until(name, number, "running")
    times = dict(deployment.events.exclude(state="").values_list("state", "at"))
    config = config_of(client, deployment.engine_handle)
    api.ask(name, "stop")
    until(name, number, "stopped")
    checked = (times["running"] - times["verifying"]).total_seconds()
    return times["running"].timestamp() - began, checked, config


def _bare(client: docker.APIClient, config: dict[str, Any], name: str) -> float:
    began = time.perf_counter()
    container = create(client, config, name)
    client.start(container)
    took = time.perf_counter() - began
    client.stop(container, timeout=10)
    client.remove_container(container, v=True)
    return took

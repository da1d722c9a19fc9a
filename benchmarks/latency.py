"""POST deploy to ``running`` against create and start of the same container through bare docker-py."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import docker

from benchmarks.report import Figure, Section, ms, p50
from benchmarks.stack import Stack
from benchmarks.tenancy import Api, prepare
from benchmarks.twin import config_of, create
from benchmarks.waiting import until

ROUNDS, WARM_UP = 25, 2


@dataclass(frozen=True, slots=True)
class Deploy:
    """Seconds of each part of one deploy, between the times in its events."""

    request: float
    pickup: float
    create: float
    start: float
    check: float

    @property
    def whole(self) -> float:
        return self.request + self.pickup + self.create + self.start + self.check

    @property
    def without_check(self) -> float:
        return self.whole - self.check


def run(stack: Stack) -> Section:
    token, (name,) = prepare(stack.engine, 1)
    api = Api(stack.url, token)
    client = docker.APIClient(stack.engine, version="auto", timeout=60)
    config: dict[str, Any] = {}
    creates, starts, deploys = [], [], []
    for number in range(WARM_UP + ROUNDS):
        # Each side goes first in every other round, once there is a container to copy.
        if config and number % 2:
            create_s, start_s = _bare(client, config, f"bare-{number}")
            deploy, config = _platform(api, name, client)
        else:
            deploy, config = _platform(api, name, client)
            create_s, start_s = _bare(client, config, f"bare-{number}")
        if number >= WARM_UP:
            deploys.append(deploy)
            creates.append(create_s)
            starts.append(start_s)
    client.close()
    bare = p50([create_s + start_s for create_s, start_s in zip(creates, starts, strict=True)])
    whole, apart = p50([each.whole for each in deploys]), p50([each.without_check for each in deploys])
    ratio = apart / bare
    return Section(
        "Deploy latency",
        f"Medians of {ROUNDS} rounds, interleaved, each side first in every other round, nothing else running on the "
        "engine. The platform is timed from before the client's POST to the time in the running event, which is just "
        "before that event's commit. The check is the time from the verifying event to the running event: the commit "
        "in between, the engine's record of the container, and nvidia-smi inside it. The parts lie between the "
        "times in the events.",
        [
            Figure("bare docker-py: create and start", f"{ms(bare)} ({ms(p50(creates))} and {ms(p50(starts))})"),
            Figure("POST deploy to running", ms(whole)),
            Figure("part: POST until queued", ms(p50([each.request for each in deploys]))),
            Figure("part: until a worker has it and begins to create", ms(p50([each.pickup for each in deploys]))),
            Figure("part: create", ms(p50([each.create for each in deploys]))),
            Figure("part: start", ms(p50([each.start for each in deploys]))),
            Figure("part: the check", ms(p50([each.check for each in deploys]))),
            Figure("without the check", ms(apart)),
            Figure("ratio without the check", f"{ratio:.2f}", "at most 1.10", ratio <= 1.1),
            Figure("ratio with the check", f"{whole / bare:.2f}"),
        ],
    )


def _platform(api: Api, name: str, client: docker.APIClient) -> tuple[Deploy, dict[str, Any]]:
    """The times of one deploy and its container's settings; it is stopped again."""
    began = time.time()
    number = api.ask(name, "deploy")["number"]
    deployment = until(name, number, "running")
    events = deployment.events.exclude(state="").values_list("state", "at")
    at = {state: moment.timestamp() for state, moment in events}
    config = config_of(client, deployment.engine_handle)
    api.ask(name, "stop")
    until(name, number, "stopped")
    deploy = Deploy(
        request=at["queued"] - began,
        pickup=at["creating"] - at["queued"],
        create=at["starting"] - at["creating"],
        start=at["verifying"] - at["starting"],
        check=at["running"] - at["verifying"],
    )
    return deploy, config


def _bare(client: docker.APIClient, config: dict[str, Any], name: str) -> tuple[float, float]:
    """Seconds of create and of start; the container is removed again."""
    began = time.perf_counter()
    container = create(client, config, name)
    created = time.perf_counter()
    client.start(container)
    started = time.perf_counter()
    client.stop(container, timeout=10)
    client.remove_container(container, v=True)
    return created - began, started - created

"""POST deploy to ``running`` against create and start of the same container through bare docker-py."""

from __future__ import annotations

import time

import docker

from benchmarks.report import Figure, Section, ms, p50
from benchmarks.stack import Stack
from benchmarks.tenancy import Api, prepare

ROUNDS = 25


def run(stack: Stack) -> Section:
    from apps_runtime.models import Deployment

    token, (name,) = prepare(stack.engine, 1)
    api = Api(stack.url, token)
    client = docker.APIClient(stack.engine, version="auto", timeout=60)
    bare, whole, check = [], [], []
    for number in range(ROUNDS + 2):
        began = time.time()
        told = api.ask(name, "deploy")
        wanted = Deployment.objects.filter(app__name=name, number=told["number"])
        state = _until(wanted, "running", "failed")
        if state != "running":
            raise RuntimeError(f"the deploy ended {state}: {wanted.get().reason}")
        deployment = wanted.get()
        times = dict(deployment.events.exclude(state="").values_list("state", "at"))
        took = times["running"].timestamp() - began
        checked = (times["running"] - times["verifying"]).total_seconds()
        twin = _twin(client, deployment.engine_handle, f"bare-{number}")
        api.ask(name, "stop")
        _until(wanted, "stopped", "failed")
        if number >= 2:  # the first two warm both sides up
            whole.append(took)
            check.append(checked)
            bare.append(twin)
    platform = p50(whole) - p50(check)
    ratio = platform / p50(bare)
    return Section(
        "Deploy latency",
        f"Median of {ROUNDS}, interleaved. The platform is timed from before the client's POST to the time in the "
        "running event; the check inside the container is the time from the verifying event to it.",
        [
            Figure("bare docker-py: create and start", ms(p50(bare))),
            Figure("POST deploy to running", ms(p50(whole))),
            Figure("of that, the check inside the container", ms(p50(check))),
            Figure("ratio without the check", f"{ratio:.2f}", "at most 1.10", ratio <= 1.1),
            Figure("ratio with the check", f"{p50(whole) / p50(bare):.2f}"),
        ],
    )


def _until(rows: object, *ends: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = str(rows.values_list("state", flat=True).get())  # type: ignore[attr-defined]
        if state in ends:
            return state
        time.sleep(0.05)
    raise RuntimeError(f"still {state} after a minute")


def _twin(client: docker.APIClient, original: str, name: str) -> float:
    """Seconds to create and start a container of exactly the same settings; it is removed again."""
    record = client.inspect_container(original)
    config = {key: record["Config"][key] for key in ("Image", "Cmd", "Env", "Labels", "User")}
    config |= {"HostConfig": record["HostConfig"], "Labels": {}}
    began = time.perf_counter()
    container = client.create_container_from_config(config, name)
    client.start(container)
    took = time.perf_counter() - began
    client.remove_container(container, force=True)
    return took

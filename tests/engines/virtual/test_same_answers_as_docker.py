"""The same calls to a virtual node and to a real Docker Engine get the same answers.

Statuses are equal and records have the same fields and types; where engines of the last years
agree on the words, those are equal too (ids and host paths aside).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import docker
import pytest

from engines.virtual.node import VirtualNode
from engines.virtual.serving import serve
from tests.services.images import SHORT

IMAGE = SHORT
RUNS = {"Image": IMAGE, "Cmd": ["sleep", "300"], "Labels": {"same.answers": "yes"}}
ENDS = RUNS | {"Cmd": ["sh", "-c", "echo out; echo err >&2; exit 7"]}


def with_request(**request: Any) -> dict[str, Any]:
    return RUNS | {"HostConfig": {"DeviceRequests": [request]}}


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    same_words: bool = True


CALLS = {
    "create": Call("POST", "/containers/create", RUNS, {"name": "same-one"}),
    "create again": Call("POST", "/containers/create", RUNS, {"name": "same-one"}),
    "create of no image": Call("POST", "/containers/create", RUNS | {"Image": "none:1"}),
    "create of no image and tag": Call("POST", "/containers/create", RUNS | {"Image": "none"}),
    "create of a wrong image": Call("POST", "/containers/create", RUNS | {"Image": "Upper:1"}),
    "create of nothing": Call("POST", "/containers/create", {}, same_words=False),
    "create with a wrong name": Call("POST", "/containers/create", RUNS, {"name": "a b"}),
    "create with little memory": Call("POST", "/containers/create", RUNS | {"HostConfig": {"Memory": 1000}}),
    "create with a wrong runtime": Call(
        "POST", "/containers/create", RUNS | {"HostConfig": {"Runtime": "none"}}, same_words=False
    ),
    "create with a host path": Call(
        "POST",
        "/containers/create",
        RUNS | {"HostConfig": {"Mounts": [{"Type": "bind", "Source": "/nope", "Target": "/x"}]}},
    ),
    "inspect created": Call("GET", "/containers/same-one/json"),
    "kill created": Call("POST", "/containers/same-one/kill", same_words=False),
    "stop created": Call("POST", "/containers/same-one/stop"),
    "exec in created": Call("POST", "/containers/same-one/exec", {"Cmd": ["true"]}, same_words=False),
    "start": Call("POST", "/containers/same-one/start"),
    "start again": Call("POST", "/containers/same-one/start"),
    "inspect running": Call("GET", "/containers/same-one/json"),
    "list": Call("GET", "/containers/json", params={"filters": '{"label": ["same.answers=yes"]}'}),
    "list of none": Call("GET", "/containers/json", params={"filters": '{"label": ["same.answers=no"]}'}),
    "list by a wrong filter": Call("GET", "/containers/json", params={"filters": '{"x": ["y"]}'}, same_words=False),
    "list by a wrong status": Call(
        "GET", "/containers/json", params={"filters": '{"status": ["x"]}'}, same_words=False
    ),
    "remove running": Call("DELETE", "/containers/same-one", same_words=False),
    "kill with a wrong signal": Call("POST", "/containers/same-one/kill", params={"signal": "NO"}, same_words=False),
    "logs of no stream": Call("GET", "/containers/same-one/logs"),
    "exec of nothing": Call("POST", "/containers/same-one/exec", {"Cmd": []}),
    "exec in none": Call("POST", "/containers/none/exec", {"Cmd": ["true"]}),
    "exec": Call("POST", "/containers/same-one/exec", {"Cmd": ["true"], "AttachStdout": True}),
    "exec start of none": Call("POST", "/exec/none/start", {"Detach": False}),
    "exec inspect of none": Call("GET", "/exec/none/json"),
    "stop": Call("POST", "/containers/same-one/stop", params={"t": 0}),
    "stop again": Call("POST", "/containers/same-one/stop", params={"t": 0}),
    "inspect stopped": Call("GET", "/containers/same-one/json"),
    "list stopped": Call("GET", "/containers/json", params={"all": 1, "filters": '{"name": ["same-one"]}'}),
    "wait": Call("POST", "/containers/same-one/wait"),
    "rename": Call("POST", "/containers/same-one/rename", params={"name": "same-two"}),
    "remove": Call("DELETE", "/containers/same-two", params={"force": 1, "v": 1}),
    "remove again": Call("DELETE", "/containers/same-two", params={"force": 1, "v": 1}),
    "inspect of none": Call("GET", "/containers/none/json"),
    "start of none": Call("POST", "/containers/none/start"),
    "wait for none": Call("POST", "/containers/none/wait"),
    "create an end": Call("POST", "/containers/create", ENDS, {"name": "same-end"}),
    "start an end": Call("POST", "/containers/same-end/start"),
    "wait for the end": Call("POST", "/containers/same-end/wait"),
    "logs of the end": Call("GET", "/containers/same-end/logs", params={"stdout": 1}),
    "errors of the end": Call("GET", "/containers/same-end/logs", params={"stderr": 1}),
    "last of the end": Call("GET", "/containers/same-end/logs", params={"stdout": 1, "tail": 0}),
    "create without cards": Call("POST", "/containers/create", RUNS | {"Cmd": ["nvidia-smi"]}, {"name": "same-smi"}),
    "start without cards": Call("POST", "/containers/same-smi/start", same_words=False),
    "inspect without cards": Call("GET", "/containers/same-smi/json"),
    "create with an unknown card": Call(
        "POST",
        "/containers/create",
        with_request(Driver="nvidia", DeviceIDs=["GPU-dead"], Capabilities=[["gpu"]]),
        {"name": "same-dead"},
    ),
    "start with an unknown card": Call("POST", "/containers/same-dead/start", same_words=False),
    "inspect with an unknown card": Call("GET", "/containers/same-dead/json"),
    "create with count and ids": Call(
        "POST",
        "/containers/create",
        with_request(Driver="nvidia", Count=-1, DeviceIDs=["GPU-dead"], Capabilities=[["gpu"]]),
        {"name": "same-both"},
    ),
    "start with count and ids": Call("POST", "/containers/same-both/start"),
    "create with a wrong capability": Call(
        "POST",
        "/containers/create",
        with_request(Driver="nvidia", Count=1, Capabilities=[["gpu", "nope"]]),
        {"name": "same-nope"},
    ),
    "start with a wrong capability": Call("POST", "/containers/same-nope/start"),
    "create with CDI": Call(
        "POST",
        "/containers/create",
        with_request(Driver="cdi", DeviceIDs=["nvidia.com/gpu=all"]),
        {"name": "same-cdi"},
    ),
    "start with CDI": Call("POST", "/containers/same-cdi/start"),
    "volume": Call("POST", "/volumes/create", {"Name": "same-volume", "Labels": {"a": "b"}}),
    "volume of a wrong name": Call("POST", "/volumes/create", {"Name": "a b"}),
    "volumes": Call("GET", "/volumes", params={"filters": '{"label": ["a=b"]}'}),
    "no volumes": Call("GET", "/volumes", params={"filters": '{"label": ["a=c"]}'}),
    "create with a volume": Call(
        "POST",
        "/containers/create",
        RUNS | {"HostConfig": {"Mounts": [{"Type": "volume", "Source": "same-volume", "Target": "/x"}]}},
        {"name": "same-mount"},
    ),
    "inspect with a volume": Call("GET", "/containers/same-mount/json"),
    "remove a used volume": Call("DELETE", "/volumes/same-volume"),
    "remove its container": Call("DELETE", "/containers/same-mount", params={"v": 1}),
    "remove the volume": Call("DELETE", "/volumes/same-volume"),
    "remove no volume": Call("DELETE", "/volumes/same-volume"),
    "image": Call("GET", f"/images/{IMAGE}/json"),
    "no image": Call("GET", "/images/none:1/json", same_words=False),
    "images": Call("GET", "/images/json"),
    "pull of a wrong name": Call("POST", "/images/create", params={"fromImage": "Upper", "tag": "1"}),
    "no such path": Call("GET", "/nothing"),
    "version": Call("GET", "/version"),
    "info": Call("GET", "/info"),
}


@pytest.fixture
def pair(docker_engine: str) -> Iterator[tuple[docker.APIClient, docker.APIClient]]:
    """The real engine and a virtual node, empty but for the image; left empty."""
    with serve([VirtualNode.with_cards("same", 4, images={IMAGE})]) as running:
        clients = tuple(docker.APIClient(url, version="auto", timeout=20) for url in (docker_engine, running.urls[0]))
        yield clients[0], clients[1]
        for client in clients:
            for left in client.containers(all=True, filters={"label": "same.answers"}):
                client.remove_container(left["Id"], force=True, v=True)
            client.close()


def ask(client: docker.APIClient, call: Call) -> tuple[int, Any]:
    url = f"{client.base_url}/v{client.api_version}{call.path}"
    answer = client.request(call.method, url, json=call.body, params=call.params, timeout=20)
    if "json" in answer.headers.get("Content-Type", "") and answer.content:
        return answer.status_code, answer.json()
    return answer.status_code, answer.content


def test_every_call_gets_the_answer_of_a_real_engine(pair: tuple[docker.APIClient, docker.APIClient]):
    differences = {}
    for name, call in CALLS.items():
        (real_status, real), (status, virtual) = (ask(client, call) for client in pair)
        found = [] if status == real_status else [f"status {status} where Docker has {real_status}: {virtual} {real}"]
        if status >= 400:
            words = [neutral(each["message"]) for each in (virtual, real)] if isinstance(virtual, dict) else ["", "?"]
            if call.same_words and words[0] != words[1]:
                found.append(f"{words[0]!r} where Docker says {words[1]!r}")
        else:
            found += unlike(virtual, real)
        if found:
            differences[name] = found
    assert differences == {}


def neutral(words: str) -> str:
    return re.sub(r"[0-9a-f]{64}", "ID", words).lower()


# What a newer engine tells and the one of the tests does not, and what only Linux hosts of some kinds have.
NEWER = frozenset({"CDISpecDirs", "Platform", "Runtime", "Mode"})


def unlike(virtual: Any, real: Any, where: str = "") -> list[str]:
    """Fields of ``virtual`` that ``real`` does not have, or has with another type or, in a state, value."""
    if virtual is None or real is None or where.rpartition(".")[2] in NEWER:
        return []
    if isinstance(virtual, dict) and isinstance(real, dict):
        extra = [f"{where}.{key} is not in Docker's" for key in virtual.keys() - real.keys() - NEWER]
        if where.rpartition(".")[2] in ("Labels", "Config", "Runtimes", "Details", "Networks"):
            extra = []
        return extra + [
            each for key in virtual.keys() & real.keys() for each in unlike(virtual[key], real[key], f"{where}.{key}")
        ]
    if isinstance(virtual, list) and isinstance(real, list):
        return unlike(virtual[0], real[0], f"{where}[0]") if virtual and real else []
    if type(virtual) is not type(real):
        return [f"{where}: {virtual!r} where Docker has {real!r}"]
    told = re.search(r"\.State\.(Status|Running|ExitCode|OOMKilled)$|^\.StatusCode$|\.State$|\.Names\[0\]$", where)
    if (told or isinstance(virtual, bytes)) and virtual != real:
        return [f"{where}: {virtual!r} where Docker has {real!r}"]
    return []

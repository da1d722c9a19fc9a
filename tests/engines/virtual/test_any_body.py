"""Whatever JSON comes, the answer is one: refused with a message, or done."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import docker
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.virtual.node import VirtualNode
from engines.virtual.serving import serve

WHOLE: dict = {
    "Image": "busybox:1",
    "Cmd": ["sleep", "infinity"],
    "Entrypoint": None,
    "Env": ["A=1"],
    "Labels": {"a": "b"},
    "Tty": False,
    "Volumes": {"/scratch": {}},
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**9, "Timeout": 10**9, "Retries": 3},
    "HostConfig": {
        "Memory": 2**30,
        "NanoCpus": 10**9,
        "Runtime": "runc",
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "Binds": ["data:/data:ro"],
        "Mounts": [{"Type": "volume", "Source": "models", "Target": "/models", "ReadOnly": True}],
        "PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": ""}]},
        "DeviceRequests": [{"Driver": "nvidia", "Count": 1, "DeviceIDs": [], "Capabilities": [["gpu"]]}],
    },
}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


@st.composite
def bodies(draw: st.DrawFn) -> dict:
    """The whole body with one or two places of it replaced by anything."""
    body = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(sorted(places(body), key=str)))
        inner: object = body
        for key in way:
            inner = inner[key]  # type: ignore[index]
        inner[last] = draw(anything)  # type: ignore[index]
    return body


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    with serve([VirtualNode.with_cards("any", 2, images={"busybox:1"})]) as running:
        made = docker.APIClient(running.urls[0], version="auto", timeout=5)
        yield made
        made.close()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=bodies())
def test_any_create_is_answered_and_its_container_can_be_used_and_removed(client: docker.APIClient, body: dict):
    def ask(method: str, path: str, **arguments) -> tuple[int, dict]:
        answer = client.request(method, client.base_url + path, timeout=5, **arguments)
        found = answer.json() if answer.content else {}
        assert answer.status_code < 400 or found["message"]
        return answer.status_code, found

    status, made = ask("POST", "/containers/create", json=body)
    assert status in (201, 400, 404)
    if status == 201:
        container = f"/containers/{made['Id']}"
        assert ask("POST", f"{container}/start")[0] in (204, 400, 500)
        assert ask("GET", f"{container}/json")[0] == 200
        assert ask("GET", "/containers/json?all=1")[0] == 200
        assert ask("DELETE", f"{container}?force=1&v=1")[0] == 204


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(["/volumes/create", "/exec/x/start", "/containers/x/exec"]), body=anything)
def test_any_other_body_is_answered(client: docker.APIClient, path: str, body: object):
    answer = client.request("POST", client.base_url + path, json=body, timeout=5)
    assert answer.status_code in (201, 400, 404)
    assert answer.json()

"""Containers through docker-py's own client: statuses and texts are dockerd's."""

from __future__ import annotations

import socket
import threading
import time

import docker
import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from engines.virtual.node import VirtualNode
from tests.engines.virtual.conftest import IMAGE, eventually


def state(client: docker.APIClient, container: str) -> dict:
    return client.inspect_container(container)["State"]


def refused(call) -> tuple[int, str]:
    with pytest.raises(APIError) as caught:
        call()
    return caught.value.status_code or 0, caught.value.explanation or ""


def status_of(client: docker.APIClient, method: str, path: str) -> int:
    return client.request(method, f"{client.base_url}/v{client.api_version}{path}", timeout=5).status_code


def test_the_version_is_negotiated(client: docker.APIClient, node: VirtualNode):
    assert client.api_version == "1.47"
    assert client.ping() is True
    assert (client.version()["ApiVersion"], client.version()["MinAPIVersion"]) == ("1.47", "1.24")


def test_paths_work_with_and_without_a_version_and_other_versions_are_refused(client: docker.APIClient):
    def asked(path: str) -> tuple[int, str]:
        answer = client.request("GET", client.base_url + path, timeout=5)
        return answer.status_code, answer.json().get("message", "")

    assert asked("/info") == asked("/v1.24/info") == asked("/v1.47/info") == (200, "")
    assert asked("/v1.48/info") == (400, "client version 1.48 is too new. Maximum supported API version is 1.47")
    status, words = asked("/v1.23/info")
    assert (status, words[:30]) == (400, "client version 1.23 is too old")
    assert asked("/v1.47/nothing") == (404, "page not found")


def test_a_container_goes_through_its_life(client: docker.APIClient, create):
    container = create("sleep", "infinity", name="one", Labels={"team": "vision"})
    assert state(client, container)["Status"] == "created"
    client.start(container)
    assert state(client, container)["Running"] is True
    client.stop(container)
    ended = state(client, container)
    assert (ended["Status"], ended["ExitCode"], ended["OOMKilled"]) == ("exited", 143, False)
    assert ended["StartedAt"] < ended["FinishedAt"]
    client.remove_container(container)
    assert refused(lambda: client.inspect_container("one")) == (404, "No such container: one")


def test_a_command_that_ends_leaves_its_exit_code(client: docker.APIClient, run):
    container = run("sh", "-c", "sleep 0.05; exit 7")
    assert client.wait(container)["StatusCode"] == 7
    assert state(client, container)["Status"] == "exited"


def test_starting_twice_and_stopping_twice_change_nothing(client: docker.APIClient, run):
    container = run()
    assert status_of(client, "POST", f"/containers/{container}/start") == 304
    assert status_of(client, "POST", f"/containers/{container}/stop") == 204
    assert status_of(client, "POST", f"/containers/{container}/stop") == 304


def test_a_kill_ends_with_the_signals_number(client: docker.APIClient, run):
    container = run()
    client.kill(container, "SIGINT")
    assert state(client, container)["ExitCode"] == 130
    assert refused(lambda: client.kill(container)) == (
        409,
        f"cannot kill container: {container}: container {container} is not running",
    )
    assert refused(lambda: client.kill(run(), "SIGNONSENSE"))[0] == 400


def test_a_name_is_used_once(client: docker.APIClient, create):
    first = create(name="taken")
    assert refused(lambda: create(name="taken")) == (
        409,
        f'Conflict. The container name "/taken" is already in use by container "{first}". You have to remove (or '
        "rename) that container to be able to reuse that name.",
    )


def test_a_running_container_is_removed_only_by_force(client: docker.APIClient, run):
    container = run(name="busy")
    assert refused(lambda: client.remove_container(container)) == (
        409,
        'cannot remove container "/busy": container is running: stop the container before removing or force remove',
    )
    client.remove_container(container, force=True)
    with pytest.raises(NotFound):
        client.inspect_container(container)


def test_a_container_is_found_by_id_name_and_a_part_of_the_id(client: docker.APIClient, create):
    container = create(name="findable")
    assert {client.inspect_container(key)["Id"] for key in (container, container[:12], "findable")} == {container}


@pytest.mark.parametrize(
    ("config", "status", "words"),
    [
        ({}, 400, "config cannot be empty"),
        ({"Image": ""}, 400, "no command specified"),
        ({"Image": "none:1"}, 404, "No such image: none:1"),
        ({"Image": "none"}, 404, "No such image: none:latest"),
        ({"Image": "Upper:1"}, 400, "invalid reference format: repository name must be lowercase"),
        ({"Image": "a b"}, 400, "invalid reference format"),
        ({"Image": IMAGE, "HostConfig": {"Memory": 1000}}, 400, "Minimum memory limit allowed is 6MB"),
        ({"Image": IMAGE, "HostConfig": {"NanoCpus": 10**12}}, 400, "range of CPUs is from 0.01 to 16.00"),
        ({"Image": IMAGE, "HostConfig": {"Runtime": "none"}}, 400, "unknown or invalid runtime name: none"),
        ({"Image": IMAGE, "Labels": ["a"]}, 400, "invalid JSON"),
        (
            {"Image": IMAGE, "HostConfig": {"Mounts": [{"Type": "bind", "Source": "/nope", "Target": "/x"}]}},
            400,
            "bind source path does not exist: /nope",
        ),
    ],
)
def test_a_wrong_create_is_refused_in_dockerds_words(client: docker.APIClient, config, status, words):
    got, said = refused(lambda: client.create_container_from_config(config))
    assert got == status
    assert words in said
    assert client.containers(all=True) == []


def test_a_wrong_name_is_refused(create):
    assert refused(lambda: create(name="a b"))[0] == 400


def test_containers_are_listed_by_label_status_and_name(client: docker.APIClient, create, run):
    idle = create(name="idle", Labels={"team": "a", "role": "app"})
    busy = run(name="busy", Labels={"team": "b"})

    def ids(**arguments) -> list[str]:
        return [entry["Id"] for entry in client.containers(**arguments)]

    assert ids() == [busy]
    assert ids(all=True) == [busy, idle]
    assert ids(all=True, filters={"label": ["team=a", "role"]}) == [idle]
    assert ids(all=True, filters={"label": "team=c"}) == []
    assert ids(filters={"status": "created"}) == [idle]
    assert ids(all=True, filters={"name": "bus"}) == [busy]
    assert ids(all=True, limit=1) == [busy]
    assert refused(lambda: client.containers(filters={"nonsense": "x"})) == (400, "invalid filter 'nonsense'")
    client.kill(busy)
    (entry,) = client.containers(all=True, filters={"name": "busy"})
    assert (entry["State"], entry["Status"][:12]) == ("exited", "Exited (137)")


def test_a_wait_ends_with_the_container_and_its_removal(client: docker.APIClient, run):
    container = run()
    answers: list = []
    waiting = [
        threading.Thread(target=lambda word=word: answers.append(client.wait(container, condition=word)))
        for word in ("not-running", "next-exit", "removed")
    ]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    assert answers == []
    client.remove_container(container, force=True)
    for thread in waiting:
        thread.join(5)
    assert [answer["StatusCode"] for answer in answers] == [137] * 3


def test_a_container_that_is_to_remove_itself_does(client: docker.APIClient, run):
    container = run("true", host={"AutoRemove": True})
    eventually(lambda: client.containers(all=True) == [])
    with pytest.raises(NotFound):
        client.inspect_container(container)


def test_a_restart_policy_brings_a_failed_container_back(client: docker.APIClient, run):
    policy = {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2}}
    container = run("sh", "-c", "echo once more; exit 3", host=policy)
    eventually(lambda: client.logs(container).count(b"once more") == 3)
    eventually(lambda: state(client, container)["Status"] == "exited")
    assert client.inspect_container(container)["RestartCount"] == 2


def test_a_container_without_a_policy_stays_ended(client: docker.APIClient, run):
    container = run("sh", "-c", "echo once; exit 3")
    client.wait(container)
    time.sleep(0.3)
    assert (client.logs(container), state(client, container)["Status"]) == (b"once\n", "exited")


def test_published_ports_get_host_ports_of_their_own(client: docker.APIClient, run):
    binding = {"PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": ""}]}}
    ports = [client.inspect_container(run(host=binding))["NetworkSettings"]["Ports"] for _ in range(2)]
    first, second = (int(each["8000/tcp"][0]["HostPort"]) for each in ports)
    assert first != second
    taken = {"PortBindings": {"80/tcp": [{"HostPort": str(first)}]}}
    status, words = refused(lambda: run(host=taken))
    assert (status, "port is already allocated" in words) == (500, True)


def test_a_health_check_is_starting_then_healthy_or_unhealthy(client: docker.APIClient, run):
    interval = {"Interval": 50_000_000, "Retries": 2}
    well = run(Healthcheck={"Test": ["CMD", "true"], **interval})
    ill = run(Healthcheck={"Test": ["CMD-SHELL", "exit 1"], **interval})
    assert state(client, well)["Health"]["Status"] == "starting"
    eventually(lambda: state(client, well)["Health"]["Status"] == "healthy")
    eventually(lambda: state(client, ill)["Health"]["Status"] == "unhealthy")
    assert client.containers(filters={"health": "unhealthy"})[0]["Id"] == ill


def test_an_image_is_pulled_with_progress(client: docker.APIClient, node: VirtualNode):
    with pytest.raises(ImageNotFound):
        client.inspect_image("registry.example.com/team/app:1")
    lines = list(client.pull("registry.example.com/team/app", tag="1", stream=True, decode=True))
    assert lines[-1]["status"] == "Status: Downloaded newer image for registry.example.com/team/app:1"
    assert any(line["status"] == "Downloading" for line in lines)
    assert client.inspect_image("registry.example.com/team/app:1")["RepoTags"] == ["registry.example.com/team/app:1"]
    assert node.images == {IMAGE, "registry.example.com/team/app:1"}
    again = list(client.pull("registry.example.com/team/app", tag="1", stream=True, decode=True))
    assert again[-1]["status"] == "Status: Image is up to date for registry.example.com/team/app:1"


def test_a_private_image_needs_its_login(client: docker.APIClient, node: VirtualNode):
    node.registry_logins["registry.example.com/"] = ("ada", "secret")
    for login in (None, {"username": "ada", "password": "wrong"}):
        status, words = refused(lambda login=login: client.pull("registry.example.com/app", tag="1", auth_config=login))
        assert (status, "pull access denied" in words) == (404, True)
    client.pull("registry.example.com/app", tag="1", auth_config={"username": "ada", "password": "secret"})
    assert "registry.example.com/app:1" in node.images


def test_volumes_are_kept_until_nobody_uses_them(client: docker.APIClient, create):
    client.create_volume("data", labels={"team": "a"})
    mount = {"Mounts": [{"Type": "volume", "Source": "data", "Target": "/data"}]}
    container = create(host=mount)
    assert client.inspect_container(container)["Mounts"][0]["Name"] == "data"
    assert refused(lambda: client.remove_volume("data")) == (409, f"remove data: volume is in use - [{container}]")
    client.remove_container(container, v=True)
    assert [each["Name"] for each in client.volumes(filters={"label": "team=a"})["Volumes"]] == ["data"]
    client.remove_volume("data")
    assert refused(lambda: client.inspect_volume("data")) == (404, "get data: no such volume")
    assert refused(lambda: client.create_volume("a b"))[0] == 400


def test_an_anonymous_volume_goes_with_its_container(client: docker.APIClient, create):
    container = create(Volumes={"/scratch": {}})
    assert len(client.volumes()["Volumes"]) == 1
    client.remove_container(container, v=True)
    assert client.volumes()["Volumes"] == []


def test_what_is_no_http_or_no_json_is_answered_with_400(client: docker.APIClient, serving):
    answer = client.request("POST", client.base_url + "/containers/create", data=b"{nonsense", timeout=5)
    assert (answer.status_code, answer.json()["message"][:12]) == (400, "invalid JSON")
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(5)
        raw.connect(serving.urls[0].removeprefix("unix://"))
        raw.sendall(b"nonsense\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")

"""Commands run in a container, over the bare connection that docker-py reads by itself."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import docker
import pytest
from docker.errors import APIError

from engines.virtual.serving import serve


def test_the_output_and_the_exit_code_come_back(run, inside):
    assert inside(run(), "sh", "-c", "echo one; echo two; exit 3") == (3, "one\ntwo\n")


def test_the_two_streams_are_told_apart(client: docker.APIClient, run):
    made = client.exec_create(run(), ["sh", "-c", "echo out; echo err >&2"])["Id"]
    assert client.exec_start(made, demux=True) == (b"out\n", b"err\n")


def test_output_comes_while_the_command_still_runs(client: docker.APIClient, run):
    made = client.exec_create(run(), ["sh", "-c", "echo first; sleep 0.3; echo second"])["Id"]
    begun = time.monotonic()
    parts = client.exec_start(made, stream=True)
    assert next(parts) == b"first\n"
    assert time.monotonic() - begun < 0.3
    assert client.exec_inspect(made)["Running"] is True
    assert list(parts) == [b"second\n"]
    assert client.exec_inspect(made)["ExitCode"] == 0


def test_a_terminals_output_has_no_frames(client: docker.APIClient, run):
    made = client.exec_create(run(), ["echo", "plain"], tty=True)["Id"]
    assert client.exec_start(made, tty=True) == b"plain\n"


def test_the_first_frame_is_never_lost_behind_the_head(client: docker.APIClient, run):
    container = run()

    def once(number: int) -> bytes:
        return client.exec_start(client.exec_create(container, ["echo", str(number)])["Id"])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(once, range(200))) == [f"{number}\n".encode() for number in range(200)]


def test_the_bare_connection_works_over_tcp(node):
    with serve([node], tcp=True) as running:
        client = docker.APIClient(running.urls[0], version="auto", timeout=5)
        container = client.create_container("busybox:1", ["sleep", "infinity"])["Id"]
        client.start(container)
        for number in range(20):
            assert (
                client.exec_start(client.exec_create(container, ["echo", str(number)])["Id"]) == f"{number}\n".encode()
            )
        client.close()


def test_a_missing_program_is_told_in_the_output_with_code_127(run, inside):
    code, output = inside(run(), "nonsense", "--now")
    assert code == 127
    assert output.startswith("OCI runtime exec failed: exec failed: unable to start container process: exec: ")
    assert '"nonsense": executable file not found in $PATH' in output


def test_a_missing_program_is_a_refusal_when_nobody_listens(client: docker.APIClient, run):
    made = client.exec_create(run(), ["nonsense"])["Id"]
    with pytest.raises(APIError, match="executable file not found") as caught:
        client.exec_start(made, detach=True)
    assert caught.value.status_code == 400


def test_a_detached_command_runs_to_its_end(client: docker.APIClient, run):
    made = client.exec_create(run(), ["sh", "-c", "sleep 0.05; exit 4"])["Id"]
    client.exec_start(made, detach=True)
    deadline = time.monotonic() + 5
    while client.exec_inspect(made)["ExitCode"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert client.exec_inspect(made)["ExitCode"] == 4


def test_a_stopped_container_runs_no_command(client: docker.APIClient, create, run):
    container = create()
    with pytest.raises(APIError, match="is not running") as caught:
        client.exec_create(container, ["true"])
    assert caught.value.status_code == 409
    with pytest.raises(APIError, match="No such exec instance: nope"):
        client.exec_inspect("nope")


def test_a_command_runs_once(client: docker.APIClient, run):
    made = client.exec_create(run(), ["true"])["Id"]
    client.exec_start(made)
    with pytest.raises(APIError, match="has already run"):
        client.exec_start(made)


def test_a_command_ends_with_its_container(client: docker.APIClient, run):
    container = run()
    made = client.exec_create(container, ["sleep", "infinity"])["Id"]
    ended: list[bytes] = []
    thread = threading.Thread(target=lambda: ended.append(client.exec_start(made)))
    thread.start()
    time.sleep(0.1)
    client.kill(container)
    thread.join(5)
    assert ended == [b""]
    assert client.exec_inspect(made)["ExitCode"] == 137


def test_a_command_sees_the_containers_variables_and_its_own(client: docker.APIClient, run):
    container = run(Env=["A=1", "B=2"])
    made = client.exec_create(container, ["sh", "-c", "echo $A ${B} ${C:-none}"], environment={"B": "3"})["Id"]
    assert client.exec_start(made) == b"1 3 none\n"

"""What a container printed, as docker-py reads it."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime

import docker
import pytest
from docker.errors import APIError

from engines.virtual.output import KEPT_BYTES, Output
from tests.engines.virtual.conftest import eventually


@pytest.fixture
def talker(client: docker.APIClient, run) -> str:
    container = run("sh", "-c", "echo one; echo two >&2; echo three")
    client.wait(container)
    return container


def test_both_streams_are_read_in_order(client: docker.APIClient, talker: str):
    assert client.logs(talker) == b"one\ntwo\nthree\n"


def test_one_stream_can_be_read_alone(client: docker.APIClient, talker: str):
    assert client.logs(talker, stdout=False) == b"two\n"
    assert client.logs(talker, stderr=False) == b"one\nthree\n"
    with pytest.raises(APIError, match="you must choose at least one stream"):
        client.logs(talker, stdout=False, stderr=False)


def test_the_last_lines_can_be_read_alone(client: docker.APIClient, talker: str):
    assert client.logs(talker, tail=2) == b"two\nthree\n"
    assert client.logs(talker, tail=0) == b""
    assert client.logs(talker, tail=1, stdout=False) == b"two\n"


def test_lines_have_the_time_they_were_written(client: docker.APIClient, talker: str):
    lines = client.logs(talker, timestamps=True).splitlines()
    assert all(re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z \w+$", line) for line in lines)
    written = datetime.fromisoformat(lines[0].split()[0].decode())
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60


def test_only_lines_since_and_until_a_moment_are_read(client: docker.APIClient, run):
    container = run("sh", "-c", "echo early; sleep 0.4; echo late")
    client.wait(container)
    early, late = (line.split()[0].decode() for line in client.logs(container, timestamps=True).splitlines())
    middle = (datetime.fromisoformat(early).timestamp() + datetime.fromisoformat(late).timestamp()) / 2
    assert client.logs(container, since=middle) == b"late\n"
    assert client.logs(container, until=middle) == b"early\n"


def test_followed_lines_come_as_they_are_written_and_end_with_the_container(client: docker.APIClient, run):
    container = run("sh", "-c", "echo first; sleep 0.3; echo second")
    lines = client.logs(container, stream=True, follow=True)
    begun = time.monotonic()
    assert next(lines) == b"first\n"
    assert time.monotonic() - begun < 0.3
    assert list(lines) == [b"second\n"]


def test_following_ends_when_the_container_is_removed(client: docker.APIClient, run):
    container = run("sh", "-c", "echo ready; sleep infinity")
    seen: list[bytes] = []
    thread = threading.Thread(target=lambda: seen.extend(client.logs(container, stream=True, follow=True)))
    thread.start()
    eventually(lambda: seen == [b"ready\n"])
    client.remove_container(container, force=True)
    thread.join(5)
    assert not thread.is_alive()


def test_a_follower_that_goes_away_leaves_nothing_behind(client: docker.APIClient, run, node):
    container = run("sh", "-c", "echo ready; sleep infinity")
    following = client.logs(container, stream=True, follow=True)
    assert next(following) == b"ready\n"
    before = len(node.connections)
    following.close()
    eventually(lambda: len(node.connections) < before)


def test_an_unknown_program_runs_as_a_service_and_says_so(client: docker.APIClient, run):
    container = run("python", "-m", "serve", "--port=8000")
    eventually(lambda: client.logs(container) == b"virtual process started: python -m serve --port=8000\n")
    assert client.inspect_container(container)["State"]["Running"] is True


def test_a_terminals_log_has_no_frames(client: docker.APIClient, run):
    container = run("echo", "plain", Tty=True)
    client.wait(container)
    assert client.logs(container) == b"plain\n"


def test_much_output_drops_the_oldest_lines_and_a_follower_goes_on():
    output = Output()
    for number in range(3):
        output.add(0.0, 1, b"x" * (KEPT_BYTES // 2 - 1) + b"\n")
        assert output.end == number + 1
    assert output.first == 1
    output.add(0.0, 1, b"last\n")
    assert [line.text for line in output.after(3)] == [b"last\n"]
    assert output.size <= KEPT_BYTES

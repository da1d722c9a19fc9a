"""The Docker driver against a real dockerd: containers from creation to removal."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engines.contract import (
    ContainerNotFound,
    ContainerPhase,
    ContainerSpec,
    Engine,
    EngineAddress,
    EngineTimeout,
    HealthCheck,
    ImageUnavailable,
    NameTaken,
    OneShot,
    RequestRefused,
    StartRefused,
    VolumeMount,
)
from engines.docker import connect

IMAGE = "busybox:test"


@pytest.fixture
def labels() -> dict[str, str]:
    """Labels of this test's containers alone."""
    return {"miabi.test": uuid.uuid4().hex}


@pytest.fixture
def engine(docker_engine: str, labels: dict[str, str]) -> Iterator[Engine]:
    engine = connect(EngineAddress(docker_engine))
    yield engine
    for container in engine.list_containers(labels):
        engine.remove(container.id, grace_s=0)


@pytest.fixture
def spec(labels: dict[str, str]) -> Callable[..., ContainerSpec]:
    def build(*command: str, **fields: object) -> ContainerSpec:
        name = f"driver-{uuid.uuid4().hex[:12]}"
        built = ContainerSpec(name=name, image=IMAGE, labels=labels, command=command or ("sleep", "600"))
        return replace(built, **fields)  # type: ignore[arg-type]

    return build


@pytest.fixture
def run(engine: Engine, spec: Callable[..., ContainerSpec]) -> Callable[..., str]:
    def start(*command: str, **fields: object) -> str:
        container = engine.create(spec(*command, **fields))
        engine.start(container)
        return container

    return start


def eventually(holds: Callable[[], bool], *, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def test_facts_name_version_and_runtimes(engine: Engine) -> None:
    facts = engine.facts()

    assert facts.engine_version
    assert facts.engine_id
    assert "runc" in facts.runtimes
    assert facts.cpus is not None
    assert facts.cpus > 0
    assert facts.system_time is not None
    assert abs(facts.system_time - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_created_container_starts_runs_and_is_gone_after_removal(
    engine: Engine, spec: Callable[..., ContainerSpec]
) -> None:
    container = engine.create(spec())
    assert engine.inspect(container).phase is ContainerPhase.CREATED
    engine.start(container)
    assert engine.inspect(container).phase is ContainerPhase.RUNNING

    engine.remove(container, grace_s=0)

    with pytest.raises(ContainerNotFound):
        engine.inspect(container)


def test_starting_a_running_container_changes_nothing(engine: Engine, run: Callable[..., str]) -> None:
    container = run()
    began = engine.inspect(container).started_at

    engine.start(container)

    assert engine.inspect(container).started_at == began


def test_removing_twice_is_fine(engine: Engine, run: Callable[..., str]) -> None:
    container = run()

    engine.remove(container, grace_s=0)
    engine.remove(container, grace_s=0)
    engine.remove(container)


def test_a_container_gets_its_grace_to_end_by_itself(
    engine: Engine, run: Callable[..., str], labels: dict[str, str]
) -> None:
    engine.ensure_volume("driver-grace", labels)
    mount = VolumeMount("driver-grace", "/farewell")
    script = "trap 'echo ended > /farewell/note; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    container = run("sh", "-c", script, volumes=(mount,), cap_drop=())
    eventually(lambda: b"ready\n" in b"".join(engine.logs(container)))

    engine.remove(container, grace_s=10)

    reader = run("sleep", "600", volumes=(mount,))
    assert engine.execute(reader, ("cat", "/farewell/note")).output == b"ended\n"
    engine.remove(reader, grace_s=0)
    engine.remove_volume("driver-grace")


def test_sixteen_threads_remove_the_same_container(engine: Engine, run: Callable[..., str]) -> None:
    container = run()

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda _: engine.remove(container, grace_s=0), range(16)))

    assert outcomes == [None] * 16


def test_a_second_create_of_an_attempt_finds_the_first_ones_container(
    engine: Engine, spec: Callable[..., ContainerSpec]
) -> None:
    attempt = spec()

    assert engine.create(attempt) == engine.create(attempt)


def test_a_name_of_somebody_else_is_not_taken_over(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    attempt = spec()
    engine.create(attempt)

    with pytest.raises(NameTaken):
        engine.create(replace(attempt, labels={"miabi.test": "another"}))


def test_a_missing_image_is_told_at_create(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    assert engine.image_present(IMAGE)
    assert not engine.image_present("driver-none:1")

    with pytest.raises(ImageUnavailable):
        engine.create(replace(spec(), image="driver-none:1"))


def test_a_registry_that_does_not_answer_is_an_unavailable_image(engine: Engine) -> None:
    with pytest.raises(ImageUnavailable):
        engine.pull("localhost:1/driver/none:1", deadline_s=20)


def test_a_command_that_does_not_exist_is_a_refused_start(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    container = engine.create(spec("no-such-command"))

    with pytest.raises(StartRefused, match="no-such-command"):
        engine.start(container)


def test_a_malformed_name_is_a_refused_request(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    with pytest.raises(RequestRefused):
        engine.create(replace(spec(), name="not a name"))


def test_an_exit_is_recorded_with_its_code(engine: Engine, run: Callable[..., str], labels: dict[str, str]) -> None:
    container = run("sh", "-c", "exit 3")

    eventually(lambda: engine.inspect(container).phase is ContainerPhase.EXITED)

    assert engine.inspect(container).exit_code == 3
    assert engine.inspect(container).finished_at is not None
    assert [each.exit_code for each in engine.list_containers(labels)] == [3]


def test_a_container_is_confined_as_asked(engine: Engine, run: Callable[..., str]) -> None:
    container = run(memory_bytes=64 << 20, pids_limit=20, user="1000:0", env={"MODEL": "llama"})

    status = engine.execute(container, ("cat", "/proc/self/status")).output.decode()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)

    assert facts["NoNewPrivs"] == "1"
    assert int(facts["CapBnd"], 16) == 0
    assert facts["Uid"].split()[0] == "1000"
    assert facts["Gid"].split()[0] == "0"
    assert b"MODEL=llama\n" in engine.execute(container, ("env",)).output


def test_a_health_check_is_run_by_the_engine(engine: Engine, run: Callable[..., str], labels: dict[str, str]) -> None:
    container = run(health=HealthCheck(("true",), interval_s=0.2))

    eventually(lambda: engine.inspect(container).health == "healthy")

    assert [each.health for each in engine.list_containers(labels)] == ["healthy"]


def test_only_containers_with_every_label_are_listed(
    engine: Engine, spec: Callable[..., ContainerSpec], labels: dict[str, str]
) -> None:
    one = engine.create(spec(labels={**labels, "miabi.app": "1"}))
    two = engine.create(spec(labels={**labels, "miabi.app": "2"}))

    assert {each.id for each in engine.list_containers(labels)} == {one, two}
    assert [each.id for each in engine.list_containers({**labels, "miabi.app": "2"})] == [two]


def test_a_volume_outlives_its_container_and_goes_when_asked(
    engine: Engine, run: Callable[..., str], labels: dict[str, str]
) -> None:
    engine.ensure_volume("driver-kept", labels)
    engine.ensure_volume("driver-kept", labels)
    container = run("sleep", "600", volumes=(VolumeMount("driver-kept", "/kept", read_only=True),))

    with pytest.raises(RequestRefused, match="in use"):
        engine.remove_volume("driver-kept")
    assert engine.execute(container, ("sh", "-c", "echo > /kept/x")).exit_code == 1
    engine.remove(container, grace_s=0)
    engine.remove_volume("driver-kept")
    engine.remove_volume("driver-kept")


def test_both_streams_are_read_as_whole_lines(engine: Engine, run: Callable[..., str]) -> None:
    container = run("sh", "-c", "echo out; echo err >&2; printf half")
    eventually(lambda: engine.inspect(container).phase is ContainerPhase.EXITED)

    chunks = list(engine.logs(container))

    assert sorted(b"".join(chunks).splitlines()) == [b"err", b"half", b"out"]


def test_logs_are_followed_until_the_container_ends(engine: Engine, run: Callable[..., str]) -> None:
    container = run("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done")

    assert b"".join(engine.logs(container, follow=True)) == b"1\n2\n3\n"


def test_a_quiet_container_is_followed_with_heartbeats(
    engine: Engine, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.docker.logs.FOLLOW_HEARTBEAT_S", 0.1)
    quiet = connect(replace(engine.address, timeout_s=0.5))  # type: ignore[attr-defined]
    container = run("sh", "-c", "sleep 2; echo late")

    chunks = list(quiet.logs(container, follow=True))

    assert chunks.count(b"") >= 3
    assert b"".join(chunks) == b"late\n"


def test_the_tail_and_the_time_narrow_the_logs(engine: Engine, run: Callable[..., str]) -> None:
    container = run("seq", "100")
    eventually(lambda: engine.inspect(container).phase is ContainerPhase.EXITED)

    assert b"".join(engine.logs(container, tail=2)) == b"99\n100\n"
    assert len(b"".join(engine.logs(container, tail=None)).splitlines()) == 100
    assert list(engine.logs(container, since=datetime.now(UTC) + timedelta(seconds=5))) == []
    (line,) = b"".join(engine.logs(container, tail=1, timestamps=True)).splitlines()
    assert line.endswith(b"Z 100")


def test_logs_of_an_absent_container_fail_at_the_call(engine: Engine) -> None:
    with pytest.raises(ContainerNotFound):
        engine.logs("driver-none")


def test_a_command_inside_gives_its_code_and_output(engine: Engine, run: Callable[..., str]) -> None:
    result = engine.execute(run(), ("sh", "-c", "echo out; echo err >&2; exit 7"))

    assert result.exit_code == 7
    assert sorted(result.output.splitlines()) == [b"err", b"out"]


def test_a_command_that_hangs_is_given_up_at_its_deadline(engine: Engine, run: Callable[..., str]) -> None:
    container = run()
    for script in ("sleep 60", "while :; do echo x; sleep 0.1; done"):
        began = time.monotonic()
        with pytest.raises(EngineTimeout):
            engine.execute(container, ("sh", "-c", script), deadline_s=0.6)
        assert time.monotonic() - began < 5


def test_a_command_that_cannot_be_run_is_refused(engine: Engine, run: Callable[..., str]) -> None:
    container = run()
    ended = run("true")
    eventually(lambda: engine.inspect(ended).phase is ContainerPhase.EXITED)

    with pytest.raises(RequestRefused, match="no-such-command"):
        engine.execute(container, ("no-such-command",))
    with pytest.raises(RequestRefused, match="not running"):
        engine.execute(ended, ("true",))
    with pytest.raises(ContainerNotFound):
        engine.execute("driver-none", ("true",))


def test_a_flood_of_output_is_read_and_cut(engine: Engine, run: Callable[..., str]) -> None:
    result = engine.execute(run(), ("seq", "400000"), deadline_s=60)

    assert result.exit_code == 0
    assert len(result.output) == 1024 * 1024


def one_shot(labels: dict[str, str], *command: str, **fields: object) -> OneShot:
    job = OneShot(name=f"driver-shot-{uuid.uuid4().hex[:8]}", image=IMAGE, command=command, labels=labels)
    return replace(job, **fields)  # type: ignore[arg-type]


def test_a_one_shot_gives_its_output_and_is_gone(engine: Engine, labels: dict[str, str]) -> None:
    result = engine.run_once(one_shot(labels, "sh", "-c", "echo out; echo err >&2; exit 4"))

    assert (result.exit_code, result.stdout, result.stderr) == (4, b"out\n", b"err\n")
    assert engine.list_containers(labels) == []


def test_a_one_shot_that_hangs_is_stopped_at_its_deadline_and_gone(engine: Engine, labels: dict[str, str]) -> None:
    with pytest.raises(EngineTimeout) as hung:
        engine.run_once(one_shot(labels, "sleep", "600", wait_deadline_s=0.5))

    assert hung.value.phase == "wait"
    assert engine.list_containers(labels) == []


def test_a_one_shot_that_cannot_start_is_gone(engine: Engine, labels: dict[str, str]) -> None:
    with pytest.raises(StartRefused):
        engine.run_once(one_shot(labels, "no-such-command"))

    assert engine.list_containers(labels) == []


def test_a_one_shot_takes_the_place_of_its_own_leftover(
    engine: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    job = one_shot(labels, "echo", "again")
    leftover = engine.create(spec(name=job.name))
    engine.start(leftover)

    assert engine.run_once(job).stdout == b"again\n"
    assert engine.list_containers(labels) == []


def test_a_one_shot_leaves_a_strangers_container_alone(
    engine: Engine, labels: dict[str, str], spec: Callable[..., ContainerSpec]
) -> None:
    strangers = engine.create(spec())

    with pytest.raises(NameTaken):
        engine.run_once(replace(one_shot({"miabi.test": "another"}, "true"), name=engine.inspect(strangers).name))

    assert [each.id for each in engine.list_containers(labels)] == [strangers]


def test_a_one_shots_output_is_cut_and_says_so(engine: Engine, labels: dict[str, str]) -> None:
    result = engine.run_once(one_shot(labels, "seq", "20000", output_limit_bytes=10_000))

    assert len(result.stdout) == 10_000
    assert result.truncated


def test_no_reading_thread_is_left_behind(engine: Engine, run: Callable[..., str]) -> None:
    container = run()
    with pytest.raises(EngineTimeout):
        engine.execute(container, ("sleep", "60"), deadline_s=0.3)
    following = engine.logs(container, follow=True)
    following.close()  # type: ignore[attr-defined]

    eventually(lambda: not [each for each in threading.enumerate() if each.name == "engine-stream"])

"""Reading the engine's records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from engines.contract import ContainerPhase
from engines.docker.facts import facts_from
from engines.docker.records import carries, from_inspect, from_list, moment

CARD = "GPU-11111111-1111-1111-1111-111111111111"


def inspected(**parts: Any) -> dict[str, Any]:
    return {"Id": "1f", "Name": "/app-1", "State": {"Status": "running"}, **parts}


def test_the_requested_devices_are_the_recorded_ids() -> None:
    record = inspected(HostConfig={"DeviceRequests": [{"Driver": "nvidia", "Count": 0, "DeviceIDs": [CARD]}]})

    assert from_inspect(record).requested_devices == (CARD,)


def test_a_cdi_device_is_told_by_its_uuid() -> None:
    record = inspected(HostConfig={"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={CARD}"]}]})

    assert from_inspect(record).requested_devices == (CARD,)


@pytest.mark.parametrize(("count", "told"), [(-1, "all"), (2, "count=2")])
def test_a_request_by_number_is_never_read_as_no_device(count: int, told: str) -> None:
    record = inspected(HostConfig={"DeviceRequests": [{"Driver": "", "Count": count, "DeviceIDs": None}]})

    assert from_inspect(record).requested_devices == (told,)


def test_the_last_of_two_equal_variables_is_what_the_process_sees() -> None:
    record = inspected(Config={"Env": ["NVIDIA_VISIBLE_DEVICES=void", "A=b", "NVIDIA_VISIBLE_DEVICES=all"]})

    assert from_inspect(record).visible_devices_env == "all"


def test_an_exit_code_is_told_only_of_an_ended_container() -> None:
    assert from_inspect(inspected(State={"Status": "running", "ExitCode": 0})).exit_code is None
    assert from_inspect(inspected(State={"Status": "exited", "ExitCode": 137})).exit_code == 137


def test_a_phase_from_the_future_is_unknown() -> None:
    assert from_inspect(inspected(State={"Status": "hibernating"})).phase is ContainerPhase.UNKNOWN


def test_a_sparse_record_is_read() -> None:
    status = from_inspect({"Id": "1f"})

    assert (status.labels, status.requested_devices, status.visible_devices_env) == ({}, (), None)


def test_published_ports_are_read_once_for_both_address_families() -> None:
    ports = {
        "8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "49153"}, {"HostIp": "::", "HostPort": "49153"}],
        "9/tcp": None,
    }

    assert from_inspect(inspected(NetworkSettings={"Ports": ports})).host_ports == {8000: 49153}


@pytest.mark.parametrize(
    ("sentence", "exit_code", "health"),
    [
        ("Up 3 minutes", None, ""),
        ("Up 3 minutes (healthy)", None, "healthy"),
        ("Up 3 minutes (unhealthy)", None, "unhealthy"),
        ("Up 1 second (health: starting)", None, "starting"),
        ("Exited (137) 2 minutes ago", 137, ""),
        ("Created", None, ""),
    ],
)
def test_a_list_entry_tells_exit_and_health_in_its_sentence(sentence: str, exit_code: int | None, health: str) -> None:
    status = from_list({"Id": "1f", "Names": ["/a"], "State": "running", "Status": sentence})

    assert (status.exit_code, status.health) == (exit_code, health)
    assert status.complete is False


def test_times_keep_their_instant_and_year_one_is_none() -> None:
    assert moment("2026-12-01T12:13:07.373047220Z") == datetime(2026, 12, 1, 12, 13, 7, 373047, tzinfo=UTC)
    assert moment("0001-01-01T00:00:00Z") is None
    assert moment("") is None
    assert moment(None) is None


def test_labels_of_the_image_do_not_make_a_container_foreign() -> None:
    assert carries({"miabi.app": "7", "maintainer": "x"}, {"miabi.app": "7"})
    assert not carries({"miabi.app": "8"}, {"miabi.app": "7"})


def test_facts_keep_unknown_apart_from_zero() -> None:
    facts = facts_from({"Version": "29.4.0", "ApiVersion": "1.54", "MinAPIVersion": "1.40"}, {"NCPU": 0})

    assert (facts.api_version, facts.min_api_version) == ("1.54", "1.40")
    assert (facts.cpus, facts.memory_bytes, facts.system_time) == (None, None, None)


def test_facts_tell_rootless_runtimes_and_discovered_cdi_devices() -> None:
    info = {
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
        "Runtimes": {"runc": {}, "nvidia": {}},
        "DefaultRuntime": "nvidia",
        "CDISpecDirs": ["/etc/cdi"],
        "DiscoveredDevices": [
            {"Source": "cdi", "ID": f"nvidia.com/gpu={CARD}"},
            {"Source": "other", "ID": "x"},
        ],
    }

    facts = facts_from({}, info)

    assert "name=rootless" in facts.security_options
    assert facts.runtimes == ("nvidia", "runc")
    assert facts.cdi_devices == (f"nvidia.com/gpu={CARD}",)

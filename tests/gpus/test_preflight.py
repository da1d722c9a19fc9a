"""What an engine's facts mean for handing out GPUs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engines.contract import EngineFacts
from gpus.node_facts import facts_of, without_contact
from gpus.preflight import Light, Preflight, Status, examine, unreachable
from gpus.readings import ProbeReport

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
FACTS = EngineFacts(
    engine_version="29.4.0",
    api_version="1.54",
    min_api_version="1.40",
    operating_system="Debian GNU/Linux 13",
    kernel_version="6.12.0-amd64",
    architecture="x86_64",
    runtimes=("nvidia", "runc"),
    default_runtime="runc",
    security_options=("name=seccomp,profile=builtin",),
    cdi_spec_dirs=(),
    cdi_devices=(),
    cpus=16,
    memory_bytes=64 * 2**30,
    host_name="gpu-1",
    system_time=NOW,
    data_root="/var/lib/docker",
)


def look(facts: EngineFacts = FACTS, **wanted: Any) -> Preflight:
    defaults: dict[str, Any] = {
        "runtime_name": "nvidia",
        "attach_mode": "device_request",
        "toolkit_version": "",
        "toolkit_floor": "1.17.8",
        "now": NOW,
    }
    return examine(facts, **(defaults | wanted))


def light(preflight: Preflight, code: str) -> Light:
    (found,) = [light for light in preflight.lights if light.code == code]
    return found


def codes(preflight: Preflight) -> set[str]:
    return {light.code for light in preflight.lights}


def test_a_well_kept_node_has_no_warning():
    preflight = look()
    assert (preflight.toolkit, preflight.isolates) == (True, True)
    assert {light.status for light in preflight.lights} == {Status.OK}


def test_every_light_that_is_not_green_says_what_to_do():
    facts = replace(
        FACTS,
        runtimes=("runc",),
        default_runtime="nvidia",
        security_options=("name=rootless",),
        kernel_version="5.15.0-microsoft-standard-WSL2",
        data_root="/var/snap/docker/common/var-lib-docker",
        system_time=NOW - timedelta(minutes=5),
    )
    troubled = [light for light in look(facts, toolkit_version="1.16.0").lights if light.status is not Status.OK]
    assert {light.code for light in troubled} == {
        "toolkit", "default_runtime", "isolation", "rootless", "snap", "toolkit_version", "clock",
    }  # fmt: skip
    assert all(light.fix for light in troubled)


def test_both_api_versions_are_told():
    assert "API 1.54 (oldest it accepts: 1.40)" in light(look(), "engine").sentence


def test_an_engine_without_the_toolkit_is_told_how_to_get_it():
    preflight = look(replace(FACTS, runtimes=("io.containerd.runc.v2", "runc")))
    assert not preflight.toolkit
    told = light(preflight, "toolkit")
    assert told.status is Status.BAD
    assert "no runtime called nvidia" in told.sentence
    assert "runc" in told.sentence
    for step in ("nvidia-container-toolkit", "nvidia-ctk runtime configure", "restart Docker"):
        assert step in told.fix


def test_the_runtime_is_looked_for_under_its_configured_name():
    facts = replace(FACTS, runtimes=("nvidia-experimental", "runc"))
    assert not look(facts).toolkit
    assert look(facts, runtime_name="nvidia-experimental").toolkit


def test_cdi_needs_a_card_named_by_its_uuid():
    facts = replace(FACTS, runtimes=("runc",), cdi_spec_dirs=("/etc/cdi",))
    named = replace(
        facts, cdi_devices=("nvidia.com/gpu=GPU-1b2c3d4e-0000-0000-0000-000000000001", "nvidia.com/gpu=all")
    )
    only_all = replace(facts, cdi_devices=("nvidia.com/gpu=0", "nvidia.com/gpu=all"))
    assert look(named, attach_mode="cdi").toolkit
    preflight = look(only_all, attach_mode="cdi")
    assert not preflight.toolkit
    assert "no card by its UUID" in light(preflight, "toolkit").sentence
    assert "--device-name-strategy=uuid" in light(preflight, "toolkit").fix


def test_cdi_directories_alone_are_believed_only_from_an_engine_that_lists_no_devices():
    facts = replace(FACTS, runtimes=("runc",), cdi_spec_dirs=("/etc/cdi", "/var/run/cdi"))
    assert look(replace(facts, api_version="1.47"), attach_mode="cdi").toolkit
    assert not look(replace(facts, api_version="1.50"), attach_mode="cdi").toolkit


def test_cdi_devices_of_another_vendor_are_no_nvidia_cards():
    facts = replace(FACTS, cdi_devices=("vendor.example/accelerator=0",))
    assert not look(facts, attach_mode="cdi").toolkit


def test_nvidia_as_the_default_runtime_is_a_red_light_and_no_obstacle():
    preflight = look(replace(FACTS, default_runtime="nvidia"))
    told = light(preflight, "default_runtime")
    assert told.status is Status.BAD
    assert "containers started by others" in told.sentence
    assert preflight.toolkit


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, operating_system="Docker Desktop"),
        replace(FACTS, kernel_version="5.15.167.4-microsoft-standard-WSL2"),
        replace(FACTS, kernel_version="6.6.0-wsl2-custom"),
    ],
)
def test_a_desktop_engine_does_not_isolate(facts: EngineFacts):
    preflight = look(facts)
    assert not preflight.isolates
    assert light(preflight, "isolation").status is Status.BAD


def test_a_rootless_engine_is_named_as_a_limit_unless_it_attaches_by_cdi():
    rootless = replace(FACTS, security_options=("name=seccomp,profile=builtin", "name=rootless"))
    assert light(look(rootless), "rootless").status is Status.WARN
    assert light(look(rootless, attach_mode="cdi"), "rootless").status is Status.OK


def test_a_snap_engine_is_told_apart():
    assert light(look(replace(FACTS, data_root="/var/snap/docker/common")), "snap").status is Status.WARN
    assert "snap" not in codes(look())


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("1.16.1", Status.WARN),
        ("1.17.7", Status.WARN),
        ("v1.9.0", Status.WARN),
        ("1.17.8", Status.OK),
        ("1.17.8-1", Status.OK),
        ("1.18", Status.OK),
        ("2.0.0", Status.OK),
        ("latest", Status.WARN),
    ],
)
def test_a_toolkit_below_the_floor_is_warned_of(version: str, status: Status):
    assert light(look(toolkit_version=version), "toolkit_version").status is status


def test_a_floor_with_a_trailing_zero_is_the_same_floor():
    assert light(look(toolkit_version="1.18", toolkit_floor="1.18.0"), "toolkit_version").status is Status.OK


def test_an_unknown_toolkit_version_is_neither_good_nor_bad():
    assert "toolkit_version" not in codes(look(toolkit_version=""))


@pytest.mark.parametrize(
    ("skew", "status"), [(29, Status.OK), (-29, Status.OK), (31, Status.WARN), (-3600, Status.WARN)]
)
def test_a_clock_that_is_off_either_way_is_warned_of(skew: int, status: Status):
    facts = replace(FACTS, system_time=NOW + timedelta(seconds=skew))
    assert light(look(facts), "clock").status is status


def test_a_clock_that_is_not_told_has_no_light():
    assert "clock" not in codes(look(replace(FACTS, system_time=None)))


def test_an_engine_that_tells_next_to_nothing_is_still_judged():
    silent = EngineFacts("", "", "", "", "", "", (), "", (), (), (), None, None, "", None)
    preflight = look(silent)
    assert not preflight.toolkit
    assert "it has: none" in light(preflight, "toolkit").sentence


def kept(**parts: Any):
    whole: dict[str, Any] = {"before": {}, "warnings": (), "toolkit_version": "", "seconds": 0.5} | parts
    report = whole.pop("report", ProbeReport(driver_version="570.1", cuda_version="12.8"))
    return facts_of(FACTS, look(), report, **whole)


def test_the_kept_facts_are_plain_json():
    facts = kept()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["system_time"] == NOW.isoformat()
    assert facts["lights"][0] == {"code": "reachable", "status": "ok", "sentence": "The engine answers.", "fix": ""}


def test_a_probe_that_got_to_no_driver_keeps_the_version_known_before():
    before = kept()
    after = kept(before=before, report=ProbeReport())
    assert (after["driver_version"], after["cuda_version"]) == ("570.1", "12.8")


def test_a_node_without_contact_keeps_its_facts_and_turns_one_light_red():
    before = kept()
    after = without_contact(before, unreachable("The engine cannot be reached.", "Look."))
    assert after["engine_version"] == "29.4.0"
    assert [light["code"] for light in after["lights"]] == [light["code"] for light in before["lights"]]
    assert after["lights"][0]["status"] == "bad"


def test_a_node_that_never_answered_has_that_one_light():
    after = without_contact({}, unreachable("The engine cannot be reached.", "Look."))
    assert after == {
        "lights": [{"code": "reachable", "status": "bad", "sentence": "The engine cannot be reached.", "fix": "Look."}]
    }

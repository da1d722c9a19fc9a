"""What ``nvidia-smi`` prints, read right: real outputs, and everything that goes wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpus.nvidia_smi import read_probe
from gpus.probe_command import split_probe_output
from gpus.probe_failures import FailureReason
from gpus.readings import DeviceReading, ProbeReport

SAMPLES = Path(__file__).parent.parent / "nvidia_smi"
ALL_SAMPLES = sorted(path.name for path in SAMPLES.glob("*.xml"))
A = "GPU-513536b6-7d19-9063-b049-1e69664bb298"
MIG_0 = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"
MIG_1 = "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d"
T4 = "GPU-d37e67a5-91dd-3774-a5cb-99096249601a"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def read(name: str, listing: bytes = b"") -> ProbeReport:
    return read_probe(sample(name), listing)


def log(*cards: str, attached: int | None = None) -> str:
    count = f"<attached_gpus>{attached}</attached_gpus>" if attached is not None else ""
    return f"<nvidia_smi_log><driver_version>570.1</driver_version>{count}{''.join(cards)}</nvidia_smi_log>"


def card(uuid: str = T4, model: str = "Tesla T4", extra: str = "", total: str = "15360 MiB") -> str:
    return (
        f'<gpu id="00000000:00:1E.0"><product_name>{model}</product_name><uuid>{uuid}</uuid>'
        f"<fb_memory_usage><total>{total}</total></fb_memory_usage>{extra}</gpu>"
    )


def mig_log(*instances: str) -> str:
    devices = "".join(f"<mig_device>{each}</mig_device>" for each in instances)
    mode = "<mig_mode><current_mig>Enabled</current_mig></mig_mode>"
    return log(card(A, "NVIDIA A100", f"{mode}<mig_devices>{devices}</mig_devices>"), attached=1)


def mig_list(*instances: tuple[str, int, str]) -> str:
    lines = [f"  MIG {profile}     Device  {index}: (UUID: {uuid})" for profile, index, uuid in instances]
    return "\n".join([f"GPU 0: NVIDIA A100 (UUID: {A})", *lines])


def only(report: ProbeReport) -> DeviceReading:
    assert report.failure is None, report.failure
    (device,) = report.devices
    return device


@pytest.mark.parametrize(
    ("name", "driver", "uuid", "model", "memory", "minor", "bus"),
    [
        ("a100-sxm4-v12.xml", "535.54.03", A, "NVIDIA A100-SXM4-80GB", 81920, 1, "00000000:01:00.0"),
        (
            "a10g.xml",
            "515.105.01",
            "GPU-9a9a6c50-2a47-2f51-a902-b82c3b127e94",
            "NVIDIA A10G",
            23028,
            0,
            "00000000:00:1E.0",
        ),
        (
            "quadro-p400.xml",
            "418.43",
            "GPU-8f750be4-dfbc-23b9-b33f-da729a536494",
            "Quadro P400",
            1998,
            0,
            "00000000:43:00.0",
        ),
        (
            "rtx-3060-v12.xml",
            "570.124.04",
            "GPU-d6889ff6-2523-9142-ca3c-1ca3f396a625",
            "NVIDIA GeForce RTX 3060",
            12288,
            0,
            "00000000:2D:00.0",
        ),
        (
            "rtx-4000-sff-ada-v13.xml",
            "595.84",
            "GPU-37037c3f-65c8-ec4d-24a9-420204ad8026",
            "NVIDIA RTX 4000 SFF Ada Generation",
            20475,
            0,
            "00000000:06:00.0",
        ),
        ("tesla-t4.xml", "515.105.01", T4, "Tesla T4", 15360, 0, "00000000:00:1E.0"),
    ],
)
def test_real_outputs_are_read_right(name, driver, uuid, model, memory, minor, bus):
    report = read(name)
    device = only(report)
    assert report.driver_version == driver
    assert (device.uuid, device.model, device.memory_mib) == (uuid, model, memory)
    assert (device.minor_number, device.pci_bus_id, device.health_reason) == (minor, bus, "")


def test_more_cards_attached_than_shown_is_an_incomplete_reading():
    report = read("a100-sxm4-v12.xml")
    assert (report.attached, report.complete) == (4, False)
    assert "The driver counts 4 card(s), 1 could be read." in report.warnings


def test_mig_instances_take_their_uuids_from_the_list():
    lines = [f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})"]
    lines += [f"  MIG 1g.20gb     Device  {n}: (UUID: MIG-0000000{n}-aaaa-bbbb-cccc-000000000000)" for n in range(4)]
    report = read("a100-sxm4-v12.xml", "\n".join(lines).encode())
    parent, *instances = report.devices
    assert parent.mig_enabled
    assert [each.uuid for each in instances] == [f"MIG-0000000{n}-aaaa-bbbb-cccc-000000000000" for n in range(4)]
    assert {(each.parent_uuid, each.mig_profile, each.memory_mib) for each in instances} == {(A, "1g.20gb", 19968)}


def test_mig_instances_without_uuids_are_left_out_with_a_warning_and_the_card_is_not_offered_whole():
    report = read("a100-sxm4-v12.xml")
    assert only(report).mig_enabled
    assert sum("MIG instance" in warning for warning in report.warnings) == 4


def test_mig_instances_that_the_list_does_not_name_make_the_reading_incomplete():
    report = read_probe(mig_log("<index>0</index>"))
    assert (report.failure, report.attached, report.complete) == (None, 1, False)


def test_the_old_form_of_mig_ids_is_an_id_too():
    uuid = f"MIG-{A}/3/0"
    report = read_probe(mig_log("<index>0</index>"), mig_list(("1g.5gb", 0, uuid)))
    assert [device.uuid for device in report.devices] == [A, uuid]
    assert report.complete


def test_a_mig_uuid_in_the_xml_is_used_and_its_profile_found_by_it_in_the_list():
    xml = mig_log(f"<index>0</index><uuid>{MIG_0}</uuid>", f"<index>1</index><uuid>{MIG_1}</uuid>")
    report = read_probe(xml, mig_list(("2g.20gb", 0, MIG_1), ("1g.10gb+me", 1, MIG_0)))
    assert [(each.uuid, each.mig_profile) for each in report.devices[1:]] == [(MIG_0, "1g.10gb+me"), (MIG_1, "2g.20gb")]
    assert report.complete


def test_a_mig_uuid_in_the_xml_needs_no_list():
    instance = read_probe(mig_log(f"<index>0</index><uuid>{MIG_0}</uuid>")).devices[1]
    assert (instance.uuid, instance.parent_uuid, instance.mig_profile) == (MIG_0, A, "")


@pytest.mark.parametrize("marker", ["N/A", "[Unknown Error]", ""])
def test_an_unknown_mig_uuid_in_the_xml_is_taken_from_the_list(marker):
    report = read_probe(mig_log(f"<index>0</index><uuid>{marker}</uuid>"), mig_list(("1g.10gb", 0, MIG_0)))
    assert report.devices[1].uuid == MIG_0


def test_mig_instances_without_an_index_are_matched_by_their_order():
    report = read_probe(mig_log("<index>N/A</index>", ""), mig_list(("1g.10gb", 0, MIG_0), ("1g.10gb", 1, MIG_1)))
    assert [each.uuid for each in report.devices[1:]] == [MIG_0, MIG_1]


def test_instances_of_one_card_are_never_taken_for_anothers():
    other = f"GPU 0: NVIDIA A100 (UUID: {T4})\n  MIG 1g.10gb Device 0: (UUID: {MIG_0})\n"
    report = read_probe(mig_log("<index>0</index>"), other + mig_list(("1g.10gb", 0, MIG_1)))
    assert [each.uuid for each in report.devices] == [A, MIG_1]


def test_an_instance_that_only_the_list_names_is_left_out_and_the_reading_incomplete():
    report = read_probe(mig_log("<index>0</index>"), mig_list(("1g.10gb", 0, MIG_0), ("1g.10gb", 1, MIG_1)))
    assert [each.uuid for each in report.devices] == [A, MIG_0]
    assert report.warnings == (f"MIG instance {MIG_1} of {A} is only in the list.",)
    assert not report.complete


def test_uncorrectable_errors_of_a_mig_instance_are_the_instances_own():
    errors = (
        "<ecc_error_count><volatile_count><sram_uncorrectable>2</sram_uncorrectable></volatile_count></ecc_error_count>"
    )
    report = read_probe(mig_log(f"<index>0</index><uuid>{MIG_0}</uuid>{errors}"))
    assert [each.health_reason for each in report.devices] == ["", "uncorrectable ECC errors"]


@pytest.mark.parametrize(
    "line",
    [
        f"GPU {'1' * 5000}: Tesla T4 (UUID: {T4})",
        f"GPU 99999999999: Tesla T4 (UUID: {T4})",
        "GPU \u0663: Tesla T4 (UUID: " + T4 + ")",
    ],
)
def test_an_index_that_is_no_small_number_is_not_taken_from_the_list(line):
    assert only(read_probe(log(card()), line.encode())).index == 0


@pytest.mark.parametrize(("text", "percent"), [("35 %", 35), ("0 %", 0), ("101 %", None), ("[N/A]", None)])
def test_utilisation_is_a_percentage_or_unknown(text, percent):
    report = read_probe(log(card(extra=f"<utilization><gpu_util>{text}</gpu_util></utilization>")))
    assert only(report).utilization_percent == percent


def test_unified_memory_is_unknown_and_the_card_is_kept():
    device = only(read_probe(log(card(model="NVIDIA GB10", total="N/A"))))
    assert (device.model, device.memory_mib, device.memory_note) == ("NVIDIA GB10", None, "unified")


@pytest.mark.parametrize(
    ("marker", "note"),
    [
        ("[N/A]", "unified"),
        ("[Not Supported]", "unified"),
        ("[Insufficient Permissions]", "Insufficient Permissions"),
        ("[Unknown Error]", "Unknown Error"),
        ("[Something New]", "Something New"),
        ("ERR!", "ERR!"),
        ("GPU is lost", "GPU is lost"),
        ("0 MiB", "0 MiB"),
        ("999999999 TiB", "999999999 TiB"),
        ("", ""),
        ("99999999999999999999 MiB", "99999999999999999999 MiB"),
    ],
)
def test_every_spelling_of_unknown_is_unknown_and_keeps_its_words(marker, note):
    device = read_probe(log(card(total=marker))).devices[0]
    assert (device.memory_mib, device.memory_note) == (None, note)


@pytest.mark.parametrize(
    ("text", "mib"), [("1 GiB", 1024), ("15360 MiB", 15360), ("15360", 15360), ("81,920 MiB", None)]
)
def test_amounts_are_mib(text, mib):
    assert read_probe(log(card(total=text))).devices[0].memory_mib == mib


def test_missing_elements_are_unknown():
    device = only(read_probe(f"<nvidia_smi_log><gpu><uuid>{T4}</uuid></gpu></nvidia_smi_log>"))
    assert (device.model, device.memory_mib, device.memory_note) == ("unknown model", None, "")
    assert (device.minor_number, device.memory_used_mib) == (None, None)
    assert (device.utilization_percent, device.process_count) == (None, None)


def test_one_bad_card_never_loses_the_others():
    report = read_probe(log(card(uuid="[N/A]"), card(uuid=A), card(uuid="GPU-../../etc")))
    assert [device.uuid for device in report.devices] == [A]
    assert len(report.warnings) == 2
    assert not report.complete


def test_an_id_that_is_too_long_to_be_kept_is_no_id():
    assert read_probe(log(card(uuid="GPU-" + "a" * 65), card())).devices[0].uuid == T4


def test_a_card_that_never_ends_takes_no_other_with_it():
    report = read_probe(f"<nvidia_smi_log><gpu id='0'><uuid>{A}</uuid>{card()}</nvidia_smi_log>")
    assert [device.uuid for device in report.devices] == [T4]
    assert report.failure.reason is FailureReason.UNREADABLE


def test_very_many_cards_that_never_end_are_read_in_one_pass():
    assert read_probe("<nvidia_smi_log>" + "<gpu >" * 200_000).devices == ()


def test_a_uuid_that_is_listed_twice_is_kept_once():
    report = read_probe(log(card(), card()))
    assert only(report).uuid == T4
    assert "listed twice" in report.warnings[0]


def test_an_image_banner_around_the_output_is_not_data():
    banner = b"== CUDA ==\nContainer image Copyright (c) 2016-2023, NVIDIA CORPORATION & AFFILIATES."
    report = read_probe(banner + b"\n" + sample("tesla-t4.xml") + b"\ntrailing, noise, GPU-\n")
    assert only(report).uuid == T4


def test_the_parts_of_a_probe_are_found_between_their_marks():
    stdout = b"banner\n--miabi xml--\n<xml/>\n--miabi list--\nGPU 0\n\n--miabi end--\nnoise"
    assert split_probe_output(stdout) == (b"<xml/>\n", b"GPU 0\n\n")
    assert split_probe_output(b"no marks") == (b"no marks", b"")
    assert split_probe_output(b"--miabi xml--\n<cut") == (b"<cut", b"")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_any_encoding_is_read(encoding):
    assert only(read_probe(sample("tesla-t4.xml").decode().encode(encoding))).uuid == T4


def test_bytes_that_are_no_text_in_a_name_do_not_matter():
    report = read_probe(log(card(model="Tesla T4")).encode().replace(b"Tesla", b"Tes\xff\x00la"))
    assert only(report).uuid == T4


@pytest.mark.parametrize("exit_code", [0, 6])
def test_no_devices_were_found_is_a_state_and_no_card(exit_code):
    report = read_probe(b"No devices were found\n", exit_code=exit_code)
    assert report.devices == ()
    assert report.failure.reason is FailureReason.NO_DEVICES


def test_a_driver_mismatch_asks_for_a_reboot():
    text = b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
    report = read_probe(text, exit_code=18)
    assert report.devices == ()
    assert report.failure.reason is FailureReason.DRIVER_MISMATCH
    assert "Reboot" in report.failure.hint


def test_a_driver_that_does_not_answer_is_said_to_be_missing():
    text = b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ..."
    assert read_probe(text, exit_code=9).failure.reason is FailureReason.DRIVER_MISSING


def test_a_lost_card_is_told_and_the_others_stay():
    text = b"Unable to determine the device handle for GPU0000:05:00.0: GPU is lost.  Reboot the system\n"
    report = read_probe(text + log(card()).encode())
    assert only(report).uuid == T4
    assert "GPU is lost" in report.warnings[0]
    assert not report.complete


def test_a_card_that_only_the_list_says_is_lost_is_told_too():
    text = "Unable to determine the device handle for gpu 0000:0B:00.0: Unknown Error\n"
    report = read_probe(log(card(), attached=1), text)
    assert report.warnings == (text.strip(),)
    assert not report.complete


@pytest.mark.parametrize(
    ("text", "exit_code", "reason"),
    [
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, FailureReason.TOOLKIT_MISSING),
        ("sh: 1: nvidia-smi: not found", 127, FailureReason.TOOLKIT_MISSING),
        ("No devices found.", 6, FailureReason.NO_DEVICES),
        ("Failed to initialize NVML: Unknown Error", 255, FailureReason.DRIVER_MISSING),
        ("", 9, FailureReason.DRIVER_MISSING),
        ("", 12, FailureReason.TOOLKIT_MISSING),
        ("", 18, FailureReason.DRIVER_MISMATCH),
        ("", 127, FailureReason.TOOLKIT_MISSING),
        ("", 6, FailureReason.UNREADABLE),
        ("", None, FailureReason.UNREADABLE),
    ],
)
def test_a_failure_is_told_by_its_words_and_without_any_by_its_exit_code(text, exit_code, reason):
    assert read_probe(text, exit_code=exit_code).failure.reason is reason


def test_a_failure_without_a_word_names_its_exit_code():
    assert read_probe(b"\n", exit_code=1).failure.detail == "No output, exit code 1."


def test_a_whole_output_with_an_exit_code_is_read_and_the_code_told():
    report = read_probe(log(card(), attached=1), exit_code=14)
    assert only(report).uuid == T4
    assert report.complete
    assert report.warnings == ("nvidia-smi ended with code 14.",)


def test_a_human_table_is_not_read():
    table = b"| NVIDIA-SMI 610.43.03  KMD Version: 610.43.03  CUDA UMD Version: 13.3 |\n| 0 NVIDIA H100 |"
    assert read_probe(table).failure.reason is FailureReason.UNREADABLE


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "requires a reset"),
        ("<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>", "remapping failed"),
        ("<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>", "remapping pending"),
        ("<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>", "page retirement pending"),
        ("<ecc_errors><volatile><dram_uncorrectable>3</dram_uncorrectable></volatile></ecc_errors>", "uncorrectable"),
        ("<ecc_errors><volatile><double_bit><total>1</total></double_bit></volatile></ecc_errors>", "uncorrectable"),
        ("<gpu_recovery_action>Reboot</gpu_recovery_action>", "recovery: Reboot"),
        (
            "<gpu_reset_status><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>",
            "drain and reset",
        ),
        ("<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>", "page retirement pending"),
        (
            "<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>",
            "SRAM",
        ),
        ("<ecc_errors><unrepairable_memory>Yes</unrepairable_memory></ecc_errors>", "cannot be repaired"),
        ("<ecc_errors><channel_repair_pending>Yes</channel_repair_pending></ecc_errors>", "memory repair pending"),
        ("<ecc_errors><tpc_repair_pending>Yes</tpc_repair_pending></ecc_errors>", "repair pending"),
    ],
)
def test_a_fault_that_the_xml_shows_is_told(extra, words):
    assert words in only(read_probe(log(card(extra=extra)))).health_reason


@pytest.mark.parametrize(
    "extra",
    [
        "<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required>"
        "</gpu_reset_status>",
        "<ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>",
        "<ecc_errors><aggregate><dram_uncorrectable>7</dram_uncorrectable></aggregate></ecc_errors>",
        "<gpu_recovery_action>None</gpu_recovery_action>",
    ],
)
def test_what_is_not_known_to_be_wrong_is_not_called_a_fault(extra):
    assert only(read_probe(log(card(extra=extra)))).health_reason == ""


def test_an_entity_bomb_is_refused():
    bomb = "".join(f'<!ENTITY a{n} "{"&a" + str(n - 1) + ";" if n else "x"}">' for n in range(20))
    report = read_probe(f"<!DOCTYPE nvidia_smi_log [{bomb}]>" + log(card(model="&a19;")))
    assert report.failure.reason is FailureReason.UNREADABLE
    assert report.devices == ()


def test_an_empty_log_that_counts_cards_is_unreadable_and_one_that_counts_none_is_empty():
    assert read_probe(log(attached=2)).failure.reason is FailureReason.UNREADABLE
    assert read_probe(log(attached=0)).failure.reason is FailureReason.NO_DEVICES


def test_an_empty_log_that_counts_nothing_is_unreadable_so_that_no_card_vanishes():
    assert read_probe(log()).failure.reason is FailureReason.UNREADABLE


@pytest.mark.parametrize("name", ALL_SAMPLES)
def test_cut_anywhere_it_is_a_failure_and_never_a_smaller_fleet(name):
    whole = sample(name)
    start, end = whole.index(b"<nvidia_smi_log"), whole.index(b"</nvidia_smi_log>")
    for cut in range(start + 16, end, max(1, (end - start) // 60)):
        report = read_probe(whole[:cut])
        assert report.failure is not None, cut
        assert report.failure.reason is FailureReason.UNREADABLE


def test_a_cut_output_still_tells_the_cards_before_the_cut():
    text = log(card(T4), card(A))
    report = read_probe(text[: text.index(A) + 4])
    assert [device.uuid for device in report.devices] == [T4]
    assert report.failure.reason is FailureReason.UNREADABLE


@given(st.binary(max_size=400), st.binary(max_size=200), st.integers(-1, 300))
def test_nothing_raises_whatever_the_bytes(xml, listing, exit_code):
    read_probe(xml, listing, exit_code=exit_code)


MARKERS = [
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "[Unknown Error]",
    "[Insufficient Permissions]",
    "Requested functionality has been deprecated",
    "ERR!",
    "No data",
    "GPU is lost",
    "",
]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL_SAMPLES), st.sampled_from(MARKERS), st.sets(st.integers(0, 2000), min_size=1, max_size=40))
def test_whatever_cells_of_a_real_output_are_unknown_the_card_is_never_another_nor_its_memory_wrong(
    name, marker, cells
):
    whole = sample(name).decode()
    spans = [match.span(1) for match in re.finditer(r">([^<>\n]*)</", whole)]
    for at in sorted({cell % len(spans) for cell in cells}, reverse=True):
        whole = whole[: spans[at][0]] + marker + whole[spans[at][1] :]
    good, report = read(name).devices[0], read_probe(whole)
    assert report.devices or report.failure.reason is FailureReason.UNREADABLE
    for device in report.devices:
        assert device.uuid == good.uuid
        assert device.memory_mib in (good.memory_mib, None)
        assert device.model in (good.model, "unknown model")
        assert device.minor_number in (good.minor_number, None)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nothing_raises_whatever_part_of_a_real_output_is_replaced(data):
    whole = sample(data.draw(st.sampled_from(ALL_SAMPLES)))
    begin = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 300))
    report = read_probe(whole[:begin] + data.draw(st.binary(max_size=60)) + whole[begin + length :])
    assert all(device.uuid.startswith(("GPU-", "MIG-")) for device in report.devices)

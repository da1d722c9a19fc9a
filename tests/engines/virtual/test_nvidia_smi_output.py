"""The text of simulated cards, read by the parser that reads real ones."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from engines.virtual.cards import Card, MigInstance, make_cards, visible
from engines.virtual.nvidia_smi import NvidiaSmi, listing, query_xml
from gpus.nvidia_smi import read_probe


def read(cards: list[Card]):
    return read_probe(query_xml(cards), listing(cards))


def test_every_field_of_a_card_arrives():
    cards = make_cards("host", 2, "NVIDIA A100-SXM4-80GB", 81920)
    report = read(cards)
    assert (report.failure, report.warnings, report.attached) == (None, (), 2)
    assert (report.driver_version, report.cuda_version) == ("570.124.04", "12.8")
    second = report.devices[1]
    assert (second.uuid, second.model, second.memory_mib) == (cards[1].uuid, "NVIDIA A100-SXM4-80GB", 81920)
    assert (second.index, second.minor_number, second.pci_bus_id) == (1, 1, "00000000:02:00.0")
    assert (second.mig_enabled, second.health_reason) == (False, "")


def test_uuids_follow_from_the_nodes_name_and_the_slot():
    assert make_cards("a", 3) == make_cards("a", 3)
    uuids = [card.uuid for name in ("a", "b") for card in make_cards(name, 8)]
    assert len(set(uuids)) == 16


def test_a_card_seen_alone_keeps_its_address():
    cards = make_cards("host", 4)
    (device,) = read(visible(cards, [cards[3].uuid])).devices
    assert (device.index, device.minor_number, device.pci_bus_id) == (0, 3, "00000000:04:00.0")


def test_instances_arrive_with_profile_and_memory():
    instances = tuple(MigInstance(f"MIG-0000000{n}-0000-4000-8000-000000000000", "3g.40gb", 40448) for n in range(2))
    (card,) = make_cards("host", 1, "NVIDIA A100-SXM4-80GB", 81920)
    report = read([replace(card, mig=instances)])
    assert report.failure is None
    parent, first, second = report.devices
    assert (parent.mig_enabled, first.parent_uuid, second.parent_uuid) == (True, card.uuid, card.uuid)
    assert [(each.uuid, each.mig_profile, each.memory_mib) for each in (first, second)] == [
        (each.uuid, "3g.40gb", 40448) for each in instances
    ]


def test_mig_on_without_instances_offers_nothing():
    (card,) = make_cards("host", 1)
    card = replace(card, mig_enabled=True)
    (device,) = read([card]).devices
    assert device.mig_enabled
    assert card.ids == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reset_required": True}, "requires a reset"),
        ({"uncorrectable_errors": 2}, "uncorrectable ECC errors"),
        ({"remap_failed": True}, "row remapping failed"),
        ({"lost": True}, "GPU is lost"),
    ],
)
def test_what_is_wrong_with_a_card_is_read(change: dict, reason: str):
    (card,) = make_cards("host", 1)
    (device,) = read([replace(card, **change)]).devices
    assert reason in device.health_reason


def test_unknown_memory_is_unknown():
    (card,) = make_cards("host", 1, "NVIDIA GB10", None)
    (device,) = read([card]).devices
    assert (device.memory_mib, device.memory_note) == (None, "unified")
    (device,) = read([replace(card, memory_text="Insufficient Permissions")]).devices
    assert (device.memory_mib, device.memory_note) == (None, "Insufficient Permissions")


def test_the_xml_is_well_formed_and_escaped():
    root = ElementTree.fromstring(query_xml([Card("GPU-00000000-0000-4000-8000-000000000000", "A & <B>")]))
    assert root.findtext("gpu/product_name") == "A & <B>"


def test_the_other_ways_to_ask():
    smi = NvidiaSmi(make_cards("host", 2))
    text, code = smi.answer(["--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"])
    assert (text.splitlines()[1], code) == (f"1, {smi.cards[1].uuid}, 23034", 0)
    assert smi.answer(["--query-gpu=nonsense", "--format=csv"])[1] == 2
    assert smi.answer([])[0].count("NVIDIA L4") == 2
    assert smi.answer(["--nonsense"])[1] == 2
    assert NvidiaSmi([]).answer(["-L"]) == ("No devices found.\n", 0)

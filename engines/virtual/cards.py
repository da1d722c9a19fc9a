"""Simulated NVIDIA cards, and what ``nvidia-smi`` says of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

DRIVER_VERSION = "570.124.04"
CUDA_VERSION = "12.8"


@dataclass(frozen=True, slots=True)
class MigInstance:
    uuid: str
    profile: str = "1g.10gb"
    memory_mib: int = 9728


@dataclass(frozen=True, slots=True)
class Card:
    """One card. ``memory_mib`` None: unified memory, which nvidia-smi reports as N/A."""

    uuid: str
    model: str = "NVIDIA L4"
    memory_mib: int | None = 23034
    reset_required: bool = False
    mig: tuple[MigInstance, ...] = ()

    @property
    def ids(self) -> list[str]:
        """What a container may be given: the instances of a card with MIG on, else the card."""
        return [instance.uuid for instance in self.mig] or [self.uuid]


def make_cards(node: str, count: int, model: str = "NVIDIA L4", memory_mib: int | None = 23034) -> list[Card]:
    """``count`` cards whose UUIDs follow from the node's name, the same at every start."""
    names = (uuid.uuid5(uuid.NAMESPACE_URL, f"miabi-virtual/{node}/{slot}") for slot in range(count))
    return [Card(f"GPU-{name}", model, memory_mib) for name in names]


def visible(cards: Sequence[Card], ids: Sequence[str]) -> list[Card]:
    """The cards (with only the instances) that ``ids`` name; ``["all"]`` is every one."""
    if list(ids) == ["all"]:
        return list(cards)
    wanted = set(ids)
    seen = []
    for card in cards:
        instances = tuple(instance for instance in card.mig if instance.uuid in wanted)
        if card.uuid in wanted or instances:
            seen.append(Card(card.uuid, card.model, card.memory_mib, card.reset_required, instances))
    return seen


def listing(cards: Sequence[Card]) -> str:
    """``nvidia-smi -L``."""
    if not cards:
        return "No devices found.\n"
    lines = []
    for index, card in enumerate(cards):
        lines.append(f"GPU {index}: {card.model} (UUID: {card.uuid})")
        for number, instance in enumerate(card.mig):
            lines.append(f"  MIG {instance.profile:<15} Device {number:>2}: (UUID: {instance.uuid})")
    return "\n".join(lines) + "\n"


def query_xml(cards: Sequence[Card]) -> str:
    """``nvidia-smi -q -x``, the elements that an inventory reads (nvsmi_device_v12.dtd)."""
    if not cards:
        return "No devices were found\n"
    blocks = "".join(_block(index, card) for index, card in enumerate(cards))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>{DRIVER_VERSION}</driver_version>\n\t<cuda_version>{CUDA_VERSION}</cuda_version>\n"
        f"\t<attached_gpus>{len(cards)}</attached_gpus>\n{blocks}</nvidia_smi_log>\n"
    )


def _block(index: int, card: Card) -> str:
    bus = f"00000000:{index + 1:02X}:00.0"
    total = "N/A" if card.memory_mib is None else f"{card.memory_mib} MiB"
    used = "N/A" if card.memory_mib is None else "1 MiB"
    instances = "".join(
        f"<mig_device><index>{number}</index><gpu_instance_id>{number + 7}</gpu_instance_id>"
        f"<compute_instance_id>0</compute_instance_id>"
        f"<fb_memory_usage><total>{instance.memory_mib} MiB</total><used>1 MiB</used></fb_memory_usage></mig_device>"
        for number, instance in enumerate(card.mig)
    )
    return (
        f'\t<gpu id="{bus}">\n'
        f"\t\t<product_name>{escape(card.model)}</product_name>\n"
        f"\t\t<mig_mode><current_mig>{'Enabled' if card.mig else 'Disabled'}</current_mig></mig_mode>\n"
        f"\t\t<mig_devices>{instances or 'None'}</mig_devices>\n"
        f"\t\t<uuid>{card.uuid}</uuid>\n\t\t<minor_number>{index}</minor_number>\n"
        f"\t\t<gpu_reset_status><reset_required>{'Yes' if card.reset_required else 'No'}</reset_required>"
        "</gpu_reset_status>\n"
        f"\t\t<pci><pci_bus_id>{bus}</pci_bus_id></pci>\n"
        f"\t\t<fb_memory_usage><total>{total}</total><used>{used}</used></fb_memory_usage>\n"
        "\t\t<utilization><gpu_util>0 %</gpu_util></utilization>\n\t\t<processes></processes>\n\t</gpu>\n"
    )

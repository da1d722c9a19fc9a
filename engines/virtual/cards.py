"""Simulated NVIDIA cards, and which of them a list of device ids names."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class MigInstance:
    uuid: str
    profile: str = "1g.10gb"
    memory_mib: int = 9728


@dataclass(frozen=True, slots=True)
class Card:
    """One card.

    ``memory_mib`` None: memory that nvidia-smi cannot tell; ``memory_text`` is what it says
    instead. ``pci_bus_id`` and ``minor_number`` follow from the place in the list when not given.
    """

    uuid: str
    model: str = "NVIDIA L4"
    memory_mib: int | None = 23034
    reset_required: bool = False
    mig: tuple[MigInstance, ...] = ()
    mig_enabled: bool = False
    """MIG is on; always so with instances. On without instances, the card serves nothing."""
    memory_text: str = "N/A"
    uncorrectable_errors: int = 0
    remap_failed: bool = False
    lost: bool = False
    """Fallen off the bus: nvidia-smi knows the card and can read nothing of it."""
    pci_bus_id: str = ""
    minor_number: int | None = None

    @property
    def mig_on(self) -> bool:
        return self.mig_enabled or bool(self.mig)

    @property
    def ids(self) -> list[str]:
        """What a container may be given: the instances of a card with MIG on, else the card."""
        return [instance.uuid for instance in self.mig] if self.mig_on else [self.uuid]


def card_uuid(node: str, slot: int) -> str:
    """The UUID of the card in ``slot``: always the same for a node's name."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'miabi-virtual/{node}/{slot}')}"


def instance_uuid(node: str, slot: int, number: int) -> str:
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_URL, f'miabi-virtual/{node}/{slot}/{number}')}"


def make_cards(node: str, count: int, model: str = "NVIDIA L4", memory_mib: int | None = 23034) -> list[Card]:
    """``count`` equal cards whose UUIDs follow from the node's name, the same at every start."""
    return [in_slot(Card(card_uuid(node, slot), model, memory_mib), slot) for slot in range(count)]


def in_slot(card: Card, slot: int) -> Card:
    """``card`` with the PCI address and minor number of a slot, which stay when others vanish."""
    return replace(card, pci_bus_id=f"00000000:{slot + 1:02X}:00.0", minor_number=slot)


def visible(cards: Sequence[Card], ids: Sequence[str]) -> list[Card]:
    """The cards that ``ids`` name by UUID or index, in the node's order; ``["all"]``: every one.

    The id of an instance (its UUID or ``card:instance``) shows its card with that instance only.
    """
    if list(ids) == ["all"]:
        return list(cards)
    wanted = set(ids)
    seen = []
    for index, card in enumerate(cards):
        if card.uuid in wanted or str(index) in wanted:
            seen.append(card)
            continue
        instances = tuple(
            instance
            for number, instance in enumerate(card.mig)
            if instance.uuid in wanted or f"{index}:{number}" in wanted
        )
        if instances:
            seen.append(replace(card, mig=instances))
    return seen


def unknown_ids(cards: Sequence[Card], ids: Sequence[str]) -> list[str]:
    """Those of ``ids`` that name no card and no instance, in order."""
    return [each for each in ids if not visible(cards, [each])]

"""The virtual NVIDIA cards of the private Docker Engines. They can change while an engine runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class MigInstance:
    uuid: str
    profile: str = "1g.5gb"
    memory_mib: int = 4864
    gpu_instance: int = 7


@dataclass(frozen=True)
class Card:
    uuid: str
    model: str
    memory_mib: int
    pci_bus_id: str
    minor: int
    mig: tuple[MigInstance, ...] | None = None
    """None: MIG is off."""


FOUR_CARDS = (
    Card("GPU-5a1b0c9e-0000-4000-8000-000000000001", "Tesla T4", 15360, "00000000:00:04.0", 1),
    Card("GPU-5a1b0c9e-0000-4000-8000-000000000002", "Tesla T4", 15360, "00000000:00:05.0", 0),
    Card("GPU-5a1b0c9e-0000-4000-8000-000000000003", "NVIDIA L4", 23034, "00000000:00:06.0", 2),
    Card("GPU-5a1b0c9e-0000-4000-8000-000000000004", "NVIDIA A100-SXM4-40GB", 40960, "00000000:00:07.0", 3),
)
"""Minor numbers and indexes differ, as they do in the field."""


@dataclass
class Fleet:
    """Each change holds from the next container on."""

    path: Path
    cards: tuple[Card, ...] = field(default=FOUR_CARDS)
    driver_failure: str = ""
    """What the toolkit says instead of attaching anything, e.g. ``nvml error: driver not loaded``."""
    smi_hangs: bool = False

    def __post_init__(self) -> None:
        self._write()

    @property
    def uuids(self) -> list[str]:
        return [card.uuid for card in self.cards]

    def set(self, cards: Sequence[Card]) -> None:
        self.cards = tuple(cards)
        self._write()

    def remove(self, uuid: str) -> None:
        """The card falls off the bus."""
        self.set([card for card in self.cards if card.uuid != uuid])

    def turn_mig_on(self, uuid: str, instances: Sequence[MigInstance]) -> None:
        self.set([replace(card, mig=tuple(instances)) if card.uuid == uuid else card for card in self.cards])

    def fail(self, driver_failure: str) -> None:
        self.driver_failure = driver_failure
        self._write()

    def hang(self) -> None:
        """nvidia-smi never returns."""
        self.smi_hangs = True
        self._write()

    def reset(self) -> None:
        self.cards, self.driver_failure, self.smi_hangs = FOUR_CARDS, "", False
        self._write()

    def _write(self) -> None:
        state = {
            "cards": [asdict(card) for card in self.cards],
            "driver_failure": self.driver_failure,
            "smi_hangs": self.smi_hangs,
        }
        # A hook may read at any moment: it finds the old file or the new one.
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self.path)

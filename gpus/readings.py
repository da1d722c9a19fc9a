"""What a probe says about a node's cards, whatever vendor tool it came from. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpus.probe_failures import ProbeFailure


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One card or MIG instance as read. ``None`` is "unknown", never 0 and never "none"."""

    uuid: str
    model: str
    vendor: str = "nvidia"
    memory_mib: int | None = None
    memory_note: str = ""
    """Why the memory is unknown: "unified", or the tool's own marker."""
    index: int | None = None
    minor_number: int | None = None
    pci_bus_id: str = ""
    parent_uuid: str = ""
    mig_enabled: bool = False
    mig_profile: str = ""
    utilization_percent: int | None = None
    memory_used_mib: int | None = None
    health_reason: str = ""
    """Empty: nothing wrong is known."""
    process_count: int | None = None

    @property
    def is_mig_instance(self) -> bool:
        return bool(self.parent_uuid)


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """``failure`` set: the devices are not a whole inventory, and nothing may vanish by it."""

    devices: tuple[DeviceReading, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: ProbeFailure | None = None
    driver_version: str = ""
    cuda_version: str = ""
    attached: int | None = None
    """How many cards the driver says there are; more than were readable is possible."""
    partial: bool = False
    """A card or MIG instance is there and could not be read; which one is not always told."""

    @property
    def complete(self) -> bool:
        """Whether all that is there was readable, so that what is not here is gone."""
        cards = sum(not device.is_mig_instance for device in self.devices)
        return self.failure is None and not self.partial and (self.attached is None or cards >= self.attached)

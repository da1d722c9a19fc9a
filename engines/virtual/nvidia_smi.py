"""What ``nvidia-smi`` prints for simulated cards, in the format of the real tool.

Formats: ``-q -x`` as in nvsmi_device_v12.dtd, ``-L`` and ``--query-gpu`` as of driver 570.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from engines.virtual.cards import Card, MigInstance

DRIVER_VERSION = "570.124.04"
CUDA_VERSION = "12.8"
NO_DEVICES = 6
INVALID_ARGUMENT = 2

_LISTING = frozenset({"-L", "--list-gpus"})
_QUERY = frozenset({"-q", "--query", "-x", "--xml-format"})


@dataclass(frozen=True, slots=True)
class NvidiaSmi:
    """The tool in one container: the cards it sees, or how it fails.

    ``failure`` is printed instead of any answer, with ``exit_code``.
    """

    cards: Sequence[Card]
    failure: str = ""
    exit_code: int = 9
    hangs: bool = False

    def answer(self, arguments: Sequence[str]) -> tuple[str, int]:
        """What it prints for ``arguments``, and its exit code."""
        if self.failure:
            return self.failure.rstrip("\n") + "\n", self.exit_code
        words = set(arguments)
        if words and words <= _LISTING:
            return listing(self.cards), 0
        if words and words <= _QUERY:
            return query_xml(self.cards), 0 if self.cards else NO_DEVICES
        fields = [word.partition("=")[2] for word in arguments if word.startswith("--query-gpu=")]
        if len(fields) == 1 and all(word.startswith(("--query-gpu=", "--format=csv")) for word in arguments):
            return query_csv(self.cards, fields[0].split(","), arguments)
        if not words:
            return table(self.cards), 0 if self.cards else NO_DEVICES
        text = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
        return text, INVALID_ARGUMENT


def listing(cards: Sequence[Card]) -> str:
    """``nvidia-smi -L``."""
    if not cards:
        return "No devices found.\n"
    lines = []
    for index, card in enumerate(cards):
        if card.lost:
            lines.append(f"Unable to determine the device handle for gpu {bus_id(card, index)}: GPU is lost.")
            continue
        lines.append(f"GPU {index}: {card.model} (UUID: {card.uuid})")
        for number, instance in enumerate(card.mig):
            lines.append(f"  MIG {instance.profile:<15} Device {number:>2}: (UUID: {instance.uuid})")
    return "\n".join(lines) + "\n"


def table(cards: Sequence[Card]) -> str:
    """The table for people, without its frame: no program should read it."""
    if not cards:
        return "No devices were found\n"
    rows = [f"| {index:>3}  {card.model:<30} {bus_id(card, index)} |" for index, card in enumerate(cards)]
    head = f"| NVIDIA-SMI {DRIVER_VERSION}   Driver Version: {DRIVER_VERSION}   CUDA Version: {CUDA_VERSION} |"
    return "\n".join([head, *rows]) + "\n"


def query_csv(cards: Sequence[Card], fields: Sequence[str], arguments: Sequence[str]) -> tuple[str, int]:
    """``nvidia-smi --query-gpu=... --format=csv``."""
    options = {option for word in arguments for option in word.partition("=")[2].split(",")}
    unit = "" if "nounits" in options else " MiB"
    rows = [] if "noheader" in options else [", ".join(fields)]
    for index, card in enumerate(cards):
        memory = f"[{card.memory_text}]" if card.memory_mib is None else f"{card.memory_mib}{unit}"
        values = {
            "index": str(index),
            "uuid": card.uuid,
            "name": card.model,
            "gpu_name": card.model,
            "memory.total": memory,
            "driver_version": DRIVER_VERSION,
            "pci.bus_id": bus_id(card, index),
            "mig.mode.current": "Enabled" if card.mig_on else "Disabled",
        }
        unknown = [name for name in map(str.strip, fields) if name not in values]
        if unknown:
            return f'Field "{unknown[0]}" is not a valid field to query.\n\n', INVALID_ARGUMENT
        rows.append(", ".join(values[name.strip()] for name in fields))
    return "\n".join(rows) + "\n", 0


def bus_id(card: Card, index: int) -> str:
    return card.pci_bus_id or f"00000000:{index + 1:02X}:00.0"


def query_xml(cards: Sequence[Card]) -> str:
    """``nvidia-smi -q -x``."""
    if not cards:
        return "No devices were found\n"
    return "".join(
        [
            '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
            "\t<timestamp>Thu Jan  1 00:00:00 2026</timestamp>\n",
            f"\t<driver_version>{DRIVER_VERSION}</driver_version>\n\t<cuda_version>{CUDA_VERSION}</cuda_version>\n",
            f"\t<attached_gpus>{len(cards)}</attached_gpus>\n",
            *(_block(card, index) for index, card in enumerate(cards)),
            "</nvidia_smi_log>\n",
        ]
    )


def _block(card: Card, index: int) -> str:
    mig = "Enabled" if card.mig_on else "Disabled" if _can_mig(card) else "N/A"
    instances = "".join(_instance(instance, number) for number, instance in enumerate(card.mig))
    instances = instances or "\n\t\t\tNone\n\t\t"
    bus = bus_id(card, index)
    minor = index if card.minor_number is None else card.minor_number
    yes = "Yes" if card.reset_required else "No"
    return f"""\t<gpu id="{bus}">
\t\t<product_name>{escape(card.model)}</product_name>
\t\t<product_brand>NVIDIA</product_brand>
\t\t<display_mode>Disabled</display_mode>
\t\t<display_active>Disabled</display_active>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode>
\t\t\t<current_mig>{mig}</current_mig>
\t\t\t<pending_mig>{mig}</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>{instances}</mig_devices>
\t\t<serial>N/A</serial>
\t\t<uuid>{card.uuid}</uuid>
\t\t<minor_number>{minor}</minor_number>
\t\t<gpu_reset_status>
\t\t\t<reset_required>{yes}</reset_required>
\t\t\t<drain_and_reset_recommended>N/A</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<pci>
\t\t\t<pci_bus>{bus[9:11]}</pci_bus>
\t\t\t<pci_device>{bus[12:14]}</pci_device>
\t\t\t<pci_domain>{bus[4:8]}</pci_domain>
\t\t\t<pci_bus_id>{bus}</pci_bus_id>
\t\t</pci>
\t\t<fan_speed>N/A</fan_speed>
\t\t<performance_state>P8</performance_state>
\t\t<fb_memory_usage>{_memory(card)}</fb_memory_usage>
\t\t<compute_mode>Default</compute_mode>
\t\t<utilization>
\t\t\t<gpu_util>0 %</gpu_util>
\t\t\t<memory_util>0 %</memory_util>
\t\t</utilization>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_correctable>0</sram_correctable>
\t\t\t\t<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
\t\t\t\t<dram_correctable>0</dram_correctable>
\t\t\t\t<dram_uncorrectable>{card.uncorrectable_errors}</dram_uncorrectable>
\t\t\t</volatile>
\t\t</ecc_errors>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>{"Yes" if card.remap_failed else "No"}</remapped_row_failure>
\t\t</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>34 C</gpu_temp>
\t\t</temperature>
\t\t<processes>
\t\t</processes>
\t</gpu>
"""


def _can_mig(card: Card) -> bool:
    return any(word in card.model for word in ("A100", "A30", "H100", "H200", "B200"))


def _memory(card: Card) -> str:
    if card.lost:
        total = used = free = "GPU is lost"
    elif card.memory_mib is None:
        total = used = free = card.memory_text
    else:
        total, used, free = f"{card.memory_mib} MiB", "1 MiB", f"{card.memory_mib - 1} MiB"
    return (
        f"\n\t\t\t<total>{escape(total)}</total>\n\t\t\t<reserved>N/A</reserved>\n\t\t\t<used>{escape(used)}</used>"
        f"\n\t\t\t<free>{escape(free)}</free>\n\t\t"
    )


def _instance(instance: MigInstance, number: int) -> str:
    total = instance.memory_mib
    return f"""
\t\t\t<mig_device>
\t\t\t\t<index>{number}</index>
\t\t\t\t<gpu_instance_id>{number + 7}</gpu_instance_id>
\t\t\t\t<compute_instance_id>0</compute_instance_id>
\t\t\t\t<ecc_error_count>
\t\t\t\t\t<volatile_count>
\t\t\t\t\t\t<sram_uncorrectable>0</sram_uncorrectable>
\t\t\t\t\t</volatile_count>
\t\t\t\t</ecc_error_count>
\t\t\t\t<fb_memory_usage>
\t\t\t\t\t<total>{total} MiB</total>
\t\t\t\t\t<reserved>0 MiB</reserved>
\t\t\t\t\t<used>1 MiB</used>
\t\t\t\t\t<free>{total - 1} MiB</free>
\t\t\t\t</fb_memory_usage>
\t\t\t</mig_device>
\t\t"""

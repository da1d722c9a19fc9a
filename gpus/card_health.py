"""What ``nvidia-smi -q -x`` says is wrong with a card. Pure."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from gpus.nvidia_smi_cells import find_text, known, number

# Cells that say "Yes" when something is wrong; which of them there are depends on the format.
_FAULTS = (
    ("gpu_reset_status/reset_required", "requires a reset"),
    ("gpu_reset_status/drain_and_reset_recommended", "the driver recommends to drain and reset it"),
    ("remapped_rows/remapped_row_failure", "row remapping failed"),
    ("remapped_rows/remapped_row_pending", "row remapping pending, reset needed"),
    ("retired_pages/pending_retirement", "page retirement pending, reboot needed"),
    ("retired_pages/pending_blacklist", "page retirement pending, reboot needed"),
    ("ecc_errors/aggregate/sram_threshold_exceeded", "too many SRAM errors, to be replaced"),
    ("ecc_errors/unrepairable_memory", "memory that cannot be repaired"),
    ("ecc_errors/channel_repair_pending", "memory repair pending, reset needed"),
    ("ecc_errors/tpc_repair_pending", "repair pending, reset needed"),
)


def health_of(block: Element) -> str:
    """What the XML says is wrong with the card, "" when nothing is known to be."""
    problems = [words for path, words in _FAULTS if find_text(block, path).lower() == "yes"]
    action = known(find_text(block, "gpu_recovery_action"))
    if action:
        problems.append(f"driver asks for recovery: {action}")
    if has_uncorrectable(block.find("ecc_errors/volatile")):
        problems.append("uncorrectable ECC errors")
    for lost in ("GPU is lost", "GPU requires reset", "Unknown Error"):
        if lost.lower() in find_text(block, "fb_memory_usage/total").lower():
            problems.append(lost)
    return "; ".join(problems)[:200]


def has_uncorrectable(counters: Element | None) -> bool:
    """Whether any counter of uncorrectable errors since the last reset is above zero."""
    if counters is None:
        return False
    texts = [child.text or "" for child in counters if "uncorrectable" in child.tag]
    texts.append(find_text(counters, "double_bit/total"))
    return any((number(text) or 0) > 0 for text in texts)

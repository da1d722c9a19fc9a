"""Why a probe of a node yielded no inventory, in words with a mending step. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureReason(StrEnum):
    UNREACHABLE = "unreachable"
    TOOLKIT_MISSING = "toolkit_missing"
    NO_ISOLATION = "no_isolation"
    IMAGE_UNAVAILABLE = "image_unavailable"
    DRIVER_MISSING = "driver_missing"
    DRIVER_MISMATCH = "driver_mismatch"
    NO_DEVICES = "no_devices"
    HUNG = "hung"
    UNREADABLE = "unreadable"
    ENGINE_REFUSED = "engine_refused"


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """``sentence`` says what is wrong, ``hint`` how to mend it, ``detail`` is raw text."""

    reason: FailureReason
    sentence: str
    hint: str
    detail: str = ""


_WORDS: dict[FailureReason, tuple[str, str]] = {
    FailureReason.UNREACHABLE: (
        "The engine cannot be reached.",
        "Check that the host is up, the engine runs, and address and TLS material are right.",
    ),
    FailureReason.TOOLKIT_MISSING: (
        "The NVIDIA Container Toolkit is not set up, so containers get no cards.",
        "Install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker', restart Docker, "
        "then rescan.",
    ),
    FailureReason.NO_ISOLATION: (
        "The host (WSL2 or Docker Desktop) shows every card to every container.",
        "Use a Linux host with a native Docker Engine for GPUs that teams share.",
    ),
    FailureReason.IMAGE_UNAVAILABLE: (
        "The probe image cannot be pulled.",
        "Load it on the host, or set another one: MIABI_GPU_PROBE_IMAGE, or the node's own probe image.",
    ),
    FailureReason.DRIVER_MISSING: (
        "The NVIDIA driver does not answer.",
        "Install or load the driver (nvidia-smi must work on the host), then rescan.",
    ),
    FailureReason.DRIVER_MISMATCH: (
        "The loaded driver and its library are of different versions.",
        "Reboot the host so that the kernel module matches the installed driver, then rescan.",
    ),
    FailureReason.NO_DEVICES: (
        "The driver answers and reports no cards.",
        "Check power, seating and 'lspci'; after a reboot wait for the driver, then rescan. Known cards are kept "
        "as missing.",
    ),
    FailureReason.HUNG: (
        "The probe did not come back in time.",
        "A card or the driver hangs: look at 'dmesg' for Xid errors; often only a reboot helps.",
    ),
    FailureReason.UNREADABLE: (
        "The probe's answer cannot be read whole.",
        "Rescan. If it stays, run 'nvidia-smi -q -x' on the host and look at the end of its output.",
    ),
    FailureReason.ENGINE_REFUSED: (
        "The engine refused to run the probe.",
        "Read the engine's own words below and its log on the host.",
    ),
}


def failure(reason: FailureReason, detail: str = "") -> ProbeFailure:
    """The failure with its standing sentence and hint."""
    sentence, hint = _WORDS[reason]
    return ProbeFailure(reason, sentence, hint, detail.strip()[:4000])

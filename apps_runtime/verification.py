"""Does a container see exactly the devices it was granted? Pure.

Asked twice: of the engine's own record, and of ``nvidia-smi -L`` inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engines.contract import ContainerStatus

# "GPU 0: NVIDIA L4 (UUID: GPU-…)" and, indented, "  MIG 1g.10gb  Device 0: (UUID: MIG-…)".
_LISTED = re.compile(r"\s*(?:GPU|MIG)\b.*\(UUID:\s*(?P<uuid>(?:GPU|MIG)-[^)\s]+)\)\s*")
# What a container prints is its tenant's: longer lines are none of nvidia-smi's, and matching
# them would take time that grows with the square of their length.
LONGEST_LINE = 400

INSIDE_COMMAND = ("nvidia-smi", "-L")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``ok`` true: exactly the granted devices; false: others, ``sentence`` says which way."""

    ok: bool
    sentence: str = ""
    operator_detail: str = ""


def judge_record(status: ContainerStatus, granted: Iterable[str]) -> Verdict:
    """The engine's own record against the lease.

    Without a grant the platform's ``void`` must stand in the container's environment: it is
    what keeps cards away when the node's default runtime is ``nvidia``.
    """
    wanted = set(granted)
    recorded = {_bare(device) for device in status.requested_devices}
    if recorded != wanted:
        return _mismatch("The engine's record of the container", recorded, wanted)
    visible = status.visible_devices_env
    if not wanted and visible != "void":
        return Verdict(
            False, "The container is not shut off from the node's GPUs.", f"NVIDIA_VISIBLE_DEVICES={visible}"
        )
    if wanted and set((visible or "").split(",")) != wanted:
        return _mismatch("The container's environment", set((visible or "").split(",")), wanted)
    return Verdict(True)


def judge_inside(output: bytes, granted: Iterable[str]) -> Verdict:
    """What ``nvidia-smi -L`` printed inside against the lease.

    With MIG the card is listed above its instances; it counts only when it has none below.
    """
    wanted = set(granted)
    seen: set[str] = set()
    card: str | None = None
    for line in output.decode("utf-8", "replace").splitlines():
        match = _LISTED.fullmatch(line) if len(line) <= LONGEST_LINE else None
        if match is None:
            continue
        uuid = match["uuid"]
        if uuid.startswith("MIG-"):
            if card is not None:
                seen.discard(card)
        else:
            card = uuid
        seen.add(uuid)
    if seen != wanted:
        return _mismatch("The container", seen, wanted, output)
    return Verdict(True)


def _bare(device: str) -> str:
    """A CDI name without its kind: ``nvidia.com/gpu=GPU-…`` is ``GPU-…``."""
    return device.rpartition("=")[2]


def _mismatch(who: str, seen: set[str], wanted: set[str], output: bytes = b"") -> Verdict:
    extra, lacking = seen - wanted, wanted - seen
    parts = []
    if extra:
        parts.append(f"{len(extra)} device(s) it was not granted")
    if lacking:
        parts.append(f"not {len(lacking)} of those it was granted")
    detail = f"granted {sorted(wanted)}, seen {sorted(seen)}"
    if output:
        detail += f"; nvidia-smi -L: {output[:2000].decode('utf-8', 'replace')}"
    return Verdict(False, f"{who} shows {' and '.join(parts)}.", detail)

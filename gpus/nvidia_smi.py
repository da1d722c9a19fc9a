"""``nvidia-smi -q -x`` (and ``-L``) text to a report. Pure.

Only the query format is read, never the human table. Formats: nvsmi_device_v10.dtd to
v13.dtd, as printed by drivers 418 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from gpus.card_health import has_uncorrectable, health_of
from gpus.nvidia_smi_cells import find_text, known, mib, number, percent
from gpus.probe_failures import FailureReason, ProbeFailure, failure
from gpus.readings import DeviceReading, ProbeReport

# The upper bound keeps an id within the column it is stored in.
_UUID = re.compile(r"(GPU-[0-9A-Za-z-]{8,64}|MIG-[0-9A-Za-z-]{8,60}(?:/\d{1,4}/\d{1,4})?)\Z", re.ASCII)
_LIST_CARD = re.compile(r"^GPU (?P<index>\d{1,9}): (?P<model>.*?) \(UUID: (?P<uuid>[^)\s]+)\)\s*$", re.ASCII)
_LIST_MIG = re.compile(
    r"^\s+MIG (?P<profile>\S{1,40})\s+Device\s+(?P<index>\d{1,9}): \(UUID: (?P<uuid>[^)\s]+)\)\s*$", re.ASCII
)
_CARD_START = re.compile(r"<gpu[\s>]")
_DEVICE_LOST = re.compile(r"Unable to determine the device handle.*", re.IGNORECASE)

# The driver's own words, wherever in the output they stand.
_FAILURES = (
    ("driver/library version mismatch", FailureReason.DRIVER_MISMATCH),
    ("couldn't communicate with the nvidia driver", FailureReason.DRIVER_MISSING),
    ("driver not loaded", FailureReason.DRIVER_MISSING),
    ("failed to initialize nvml", FailureReason.DRIVER_MISSING),
    ("couldn't find libnvidia-ml", FailureReason.TOOLKIT_MISSING),
    ("no devices were found", FailureReason.NO_DEVICES),
    ("no devices found", FailureReason.NO_DEVICES),
    ("nvidia-smi: not found", FailureReason.TOOLKIT_MISSING),
    ("nvidia-smi: command not found", FailureReason.TOOLKIT_MISSING),
)
# Where it says nothing: "Return value" in nvidia-smi(1), NVML's own numbers above 17, the shell's 127.
_EXIT_CODES = {
    9: FailureReason.DRIVER_MISSING,
    12: FailureReason.TOOLKIT_MISSING,
    18: FailureReason.DRIVER_MISMATCH,
    127: FailureReason.TOOLKIT_MISSING,
}


def read_probe(xml_output: bytes | str, list_output: bytes | str = b"", *, exit_code: int | None = 0) -> ProbeReport:
    """Read one probe. Never raises: what cannot be read is in the report's failure.

    Text before and after the XML, any encoding, missing elements and every spelling of
    "unknown" are fine. A card without a valid UUID is left out with a warning and never
    costs the others. Output that is cut gives the whole cards before the cut, and the
    failure ``unreadable``, so that no card seems to have vanished.
    """
    text, listing = _decode(xml_output), _decode(list_output)
    start = text.find("<nvidia_smi_log")
    if start < 0:
        return ProbeReport(failure=_classify(text + "\n" + listing, exit_code))
    end = text.find("</nvidia_smi_log>", start)
    cut = end < 0
    body = text[start:] if cut else text[start : end + len("</nvidia_smi_log>")]
    root = _parse(body)
    if root is not None and not cut:
        blocks = root.findall("gpu")
    else:
        # Cut, or broken in one place: read card by card what is whole.
        cut = True
        blocks = [block for block in map(_parse, _whole_cards(body)) if block is not None]
    # Each of these is a device that is there and cannot be read.
    unread = list(dict.fromkeys(match[0].strip()[:300] for match in _DEVICE_LOST.finditer(f"{text}\n{listing}")))
    devices, warnings = _unique(_read_cards(blocks, _read_listing(listing), unread))
    warnings = unread + warnings
    attached = number(find_text(root, "attached_gpus")) if root is not None else None
    cards = sum(not device.is_mig_instance for device in devices)
    if attached is not None and attached > cards:
        warnings.append(f"The driver counts {attached} card(s), {cards} could be read.")
    if exit_code:
        # 14, for one: the cards are all there, and the infoROM of one is corrupted.
        warnings.append(f"nvidia-smi ended with code {exit_code}.")
    problem: ProbeFailure | None = None
    if cut:
        problem = failure(FailureReason.UNREADABLE, "The XML is cut or broken.")
    elif not blocks:
        # An XML that lists no card is believed only when the driver itself counts none.
        problem = failure(FailureReason.NO_DEVICES if attached == 0 else FailureReason.UNREADABLE)
    elif not devices:
        problem = failure(FailureReason.UNREADABLE, "No card has a valid UUID.")
    return ProbeReport(
        devices=tuple(devices),
        warnings=tuple(warnings),
        failure=problem,
        driver_version=known(find_text(root, "driver_version"))[:60],
        cuda_version=known(find_text(root, "cuda_version"))[:60],
        attached=attached,
        partial=bool(unread),
    )


def _decode(output: bytes | str) -> str:
    """Text whatever the encoding; characters XML forbids are dropped."""
    if isinstance(output, bytes):
        if output[:2] in (b"\xff\xfe", b"\xfe\xff"):
            output = output.decode("utf-16", "replace")
        elif output[:400].count(b"\0") > len(output[:400]) // 4:
            output = output.decode("utf-16-le" if output[1:2] == b"\0" else "utf-16-be", "replace")
        else:
            output = output.decode("utf-8-sig", "replace")
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", output)


def _classify(text: str, exit_code: int | None) -> ProbeFailure:
    lowered = text.lower()
    for words, reason in _FAILURES:
        if words in lowered:
            return failure(reason, text)
    reason = FailureReason.UNREADABLE if exit_code is None else _EXIT_CODES.get(exit_code, FailureReason.UNREADABLE)
    return failure(reason, text.strip() or f"No output, exit code {exit_code}.")


def _parse(text: str) -> Element | None:
    """The element, or None. Entities are refused, so no small text unfolds into a large one."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        return None
    return root


def _whole_cards(body: str) -> Iterator[str]:
    """The cards that have both ends. One that never ends takes none of the others with it."""
    for text in body.split("</gpu>")[:-1]:
        starts = [match.start() for match in _CARD_START.finditer(text)]
        if starts:
            yield text[starts[-1] :] + "</gpu>"


def _read_cards(blocks: list[Element], listing: dict[str, _Listed], unread: list[str]) -> Iterator[DeviceReading]:
    for position, block in enumerate(blocks):
        uuid = find_text(block, "uuid")
        where = block.get("id") or f"number {position}"
        if not _UUID.match(uuid) or not uuid.startswith("GPU-"):
            unread.append(f"The card at {where[:60]} has no valid UUID ({uuid[:60] or 'none'}) and is left out.")
            continue
        listed = listing.get(uuid)
        mig = find_text(block, "mig_mode/current_mig").lower() == "enabled"
        memory, note = _memory(block.find("fb_memory_usage"))
        model = known(find_text(block, "product_name")) or (listed.model if listed else "") or "unknown model"
        yield DeviceReading(
            uuid=uuid,
            model=model[:120],
            memory_mib=memory,
            memory_note=note,
            index=listed.index if listed else position,
            minor_number=number(find_text(block, "minor_number")),
            pci_bus_id=(known(find_text(block, "pci/pci_bus_id")) or block.get("id") or "")[:32],
            mig_enabled=mig,
            utilization_percent=percent(find_text(block, "utilization/gpu_util")),
            memory_used_mib=mib(find_text(block, "fb_memory_usage/used")),
            health_reason=health_of(block),
            process_count=_processes(block),
        )
        if mig:
            yield from _read_instances(block, uuid, model, listed, unread)


class _Listed:
    """A card of ``nvidia-smi -L``: its index, model, and MIG instances by device index."""

    def __init__(self, index: int, model: str) -> None:
        self.index = index
        self.model = model
        self.instances: dict[int, tuple[str, str]] = {}


def _read_listing(text: str) -> dict[str, _Listed]:
    cards: dict[str, _Listed] = {}
    card: _Listed | None = None
    for line in text.splitlines():
        if match := _LIST_CARD.match(line):
            card = cards.setdefault(match["uuid"], _Listed(int(match["index"]), match["model"]))
        elif (match := _LIST_MIG.match(line)) and card is not None:
            card.instances[int(match["index"])] = (match["uuid"], match["profile"])
    return cards


def _read_instances(
    block: Element, parent: str, model: str, listed: _Listed | None, unread: list[str]
) -> Iterator[DeviceReading]:
    from_list = dict(listed.instances) if listed else {}
    for position, instance in enumerate(block.findall("mig_devices/mig_device")):
        index = number(find_text(instance, "index"))
        index = position if index is None else index
        told = known(find_text(instance, "uuid"))
        # Formats up to v12 have no UUID of an instance; the list's device index is the XML's.
        key = next((each for each, (uuid, _) in from_list.items() if uuid == told), None) if told else index
        uuid, profile = from_list.pop(key, (told, "")) if key is not None else (told, "")
        if not _UUID.match(uuid) or not uuid.startswith("MIG-"):
            unread.append(f"MIG instance {index} of {parent} has no UUID in the output and is left out.")
            continue
        memory, note = _memory(instance.find("fb_memory_usage"))
        yield DeviceReading(
            uuid=uuid,
            model=f"{model} MIG {profile}".rstrip()[:120],
            memory_mib=memory,
            memory_note=note,
            index=index,
            parent_uuid=parent,
            mig_profile=profile,
            memory_used_mib=mib(find_text(instance, "fb_memory_usage/used")),
            health_reason=(
                "uncorrectable ECC errors" if has_uncorrectable(instance.find("ecc_error_count/volatile_count")) else ""
            ),
        )
    unread.extend(f"MIG instance {uuid[:80]} of {parent} is only in the list." for uuid, _ in from_list.values())


def _unique(readings: Iterator[DeviceReading]) -> tuple[list[DeviceReading], list[str]]:
    found: dict[str, DeviceReading] = {}
    warnings = []
    for reading in readings:
        if reading.uuid in found:
            warnings.append(f"{reading.uuid} is listed twice; the first is kept.")
        else:
            found[reading.uuid] = reading
    return list(found.values()), warnings


def _processes(block: Element) -> int | None:
    processes = block.find("processes")
    if processes is None or (processes.text or "").strip():
        return None
    return len(processes.findall("process_info"))


def _memory(usage: Element | None) -> tuple[int | None, str]:
    """Total memory in MiB, or None with the reason in words."""
    total = (usage.findtext("total") or "").strip() if usage is not None else ""
    amount = mib(total)
    if amount:
        return amount, ""
    # "N/A" where the card answers everything else is memory shared with the CPU (GB10, Jetson).
    return None, "unified" if total.strip("[]").lower() in ("n/a", "not supported") else total.strip("[]")[:60]

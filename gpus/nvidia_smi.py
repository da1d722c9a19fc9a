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

from gpus.probe_failures import FailureReason, ProbeFailure, failure
from gpus.readings import DeviceReading, ProbeReport

_UUID = re.compile(r"(GPU-[0-9A-Za-z-]{8,}|MIG-[0-9A-Za-z-]{8,}(?:/\d+/\d+)?)\Z")
_AMOUNT = re.compile(r"(?P<number>\d{1,12})(?:\.\d+)?\s*(?P<unit>[KMGT]i?B|bytes|B)?\Z", re.IGNORECASE)
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}
_UNKNOWN = frozenset(
    {
        "",
        "n/a",
        "none",
        "unknown",
        "unknown error",
        "not supported",
        "no data",
        "err!",
        "insufficient permissions",
    }
)
_LIST_CARD = re.compile(r"^GPU (?P<index>\d+): (?P<model>.*?) \(UUID: (?P<uuid>[^)\s]+)\)\s*$")
_LIST_MIG = re.compile(r"^\s+MIG (?P<profile>\S+)\s+Device\s+(?P<index>\d+): \(UUID: (?P<uuid>[^)\s]+)\)\s*$")
_DEVICE_LOST = re.compile(r"Unable to determine the device handle.*", re.IGNORECASE)

# The driver's own words, wherever in the output they stand.
_FAILURES = (
    ("driver/library version mismatch", FailureReason.DRIVER_MISMATCH),
    ("couldn't communicate with the nvidia driver", FailureReason.DRIVER_MISSING),
    ("driver not loaded", FailureReason.DRIVER_MISSING),
    ("failed to initialize nvml", FailureReason.DRIVER_MISSING),
    ("no devices were found", FailureReason.NO_DEVICES),
    ("nvidia-smi: not found", FailureReason.TOOLKIT_MISSING),
    ("nvidia-smi: command not found", FailureReason.TOOLKIT_MISSING),
)


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
        blocks = [block for block in map(_parse, re.findall(r"<gpu\b.*?</gpu>", body, re.DOTALL)) if block is not None]
    warnings = [match.group(0).strip() for match in _DEVICE_LOST.finditer(text)]
    devices = _unique(_read_cards(blocks, _read_listing(listing), warnings), warnings)
    attached = _number(_find_text(root, "attached_gpus")) if root is not None else None
    cards = sum(not device.is_mig_instance for device in devices)
    if attached is not None and attached > cards:
        warnings.append(f"The driver counts {attached} card(s), {cards} could be read.")
    problem: ProbeFailure | None = None
    if cut:
        problem = failure(FailureReason.UNREADABLE, "The XML is cut or broken.")
    elif not blocks:
        # An XML that lists no card is believed only when the driver itself counts none.
        problem = failure(FailureReason.NO_DEVICES if attached in (0, None) else FailureReason.UNREADABLE)
    elif not devices:
        problem = failure(FailureReason.UNREADABLE, "No card has a valid UUID.")
    return ProbeReport(
        devices=tuple(devices),
        warnings=tuple(warnings),
        failure=problem,
        driver_version=_known(_find_text(root, "driver_version")),
        cuda_version=_known(_find_text(root, "cuda_version")),
        attached=attached,
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
    if exit_code == 127:
        return failure(FailureReason.TOOLKIT_MISSING, text)
    if exit_code == 9:
        return failure(FailureReason.DRIVER_MISSING, text)
    return failure(FailureReason.UNREADABLE, text or f"No output, exit code {exit_code}.")


def _parse(text: str) -> Element | None:
    """The element, or None. Entities are refused, so no small text unfolds into a large one."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        return None
    return root


def _read_cards(blocks: list[Element], listing: dict[str, _Listed], warnings: list[str]) -> Iterator[DeviceReading]:
    for position, block in enumerate(blocks):
        uuid = _find_text(block, "uuid")
        where = block.get("id") or f"number {position}"
        if not _UUID.match(uuid) or not uuid.startswith("GPU-"):
            warnings.append(f"The card at {where} has no valid UUID ({uuid[:60] or 'none'}) and is left out.")
            continue
        listed = listing.get(uuid)
        mig = _find_text(block, "mig_mode/current_mig").lower() == "enabled"
        memory, note = _memory(block.find("fb_memory_usage"))
        model = _known(_find_text(block, "product_name")) or (listed.model if listed else "") or "unknown model"
        yield DeviceReading(
            uuid=uuid,
            model=model[:120],
            memory_mib=memory,
            memory_note=note,
            index=listed.index if listed else position,
            minor_number=_number(_find_text(block, "minor_number")),
            pci_bus_id=(_known(_find_text(block, "pci/pci_bus_id")) or block.get("id") or "")[:32],
            mig_enabled=mig,
            utilization_percent=_number(_find_text(block, "utilization/gpu_util").rstrip(" %")),
            memory_used_mib=_mib(_find_text(block, "fb_memory_usage/used")),
            health_reason=_health(block),
            process_count=_processes(block),
        )
        if mig:
            yield from _read_instances(block, uuid, model, listed, warnings)


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
    block: Element, parent: str, model: str, listed: _Listed | None, warnings: list[str]
) -> Iterator[DeviceReading]:
    for instance in block.findall("mig_devices/mig_device"):
        index = _number(_find_text(instance, "index"))
        from_list = listed.instances.get(index) if listed and index is not None else None
        uuid = _find_text(instance, "uuid") or (from_list[0] if from_list else "")
        if not _UUID.match(uuid) or not uuid.startswith("MIG-"):
            warnings.append(f"MIG instance {index} of {parent} has no UUID in the output and is left out.")
            continue
        memory, note = _memory(instance.find("fb_memory_usage"))
        profile = from_list[1] if from_list else ""
        yield DeviceReading(
            uuid=uuid,
            model=f"{model} MIG {profile}".rstrip()[:120],
            memory_mib=memory,
            memory_note=note,
            index=index,
            parent_uuid=parent,
            mig_profile=profile,
            memory_used_mib=_mib(_find_text(instance, "fb_memory_usage/used")),
            health_reason="uncorrectable ECC errors" if _uncorrectable(instance.find("ecc_error_count")) else "",
        )


def _unique(readings: Iterator[DeviceReading], warnings: list[str]) -> list[DeviceReading]:
    found: dict[str, DeviceReading] = {}
    for reading in readings:
        if reading.uuid in found:
            warnings.append(f"{reading.uuid} is listed twice; the first is kept.")
        else:
            found[reading.uuid] = reading
    return list(found.values())


def _health(block: Element) -> str:
    """What the XML says is wrong with the card, "" when nothing is known to be."""
    problems = []
    if _yes(block, "gpu_reset_status/reset_required"):
        problems.append("requires a reset")
    action = _known(_find_text(block, "gpu_recovery_action"))
    if action:
        problems.append(f"driver asks for recovery: {action}")
    if _yes(block, "remapped_rows/remapped_row_failure"):
        problems.append("row remapping failed")
    if _yes(block, "remapped_rows/remapped_row_pending"):
        problems.append("row remapping pending, reset needed")
    if _yes(block, "retired_pages/pending_retirement") or _yes(block, "retired_pages/pending_blacklist"):
        problems.append("page retirement pending, reboot needed")
    if _uncorrectable(block.find("ecc_errors/volatile")):
        problems.append("uncorrectable ECC errors")
    for lost in ("GPU is lost", "GPU requires reset", "Unknown Error"):
        if lost.lower() in _find_text(block, "fb_memory_usage/total").lower():
            problems.append(lost)
    return "; ".join(problems)[:200]


def _uncorrectable(counters: Element | None) -> bool:
    """Whether any counter of uncorrectable errors since the last reset is above zero."""
    if counters is None:
        return False
    texts = [child.text or "" for child in counters if "uncorrectable" in child.tag]
    texts.append(_find_text(counters, "double_bit/total"))
    return any((_number(text) or 0) > 0 for text in texts)


def _processes(block: Element) -> int | None:
    processes = block.find("processes")
    if processes is None or (processes.text or "").strip():
        return None
    return len(processes.findall("process_info"))


def _memory(usage: Element | None) -> tuple[int | None, str]:
    """Total memory in MiB, or None with the reason in words."""
    total = (usage.findtext("total") or "").strip() if usage is not None else ""
    amount = _mib(total)
    if amount:
        return amount, ""
    # "N/A" where the card answers everything else is memory shared with the CPU (GB10, Jetson).
    return None, "unified" if total.strip("[]").lower() in ("", "n/a", "not supported") else total.strip("[]")[:60]


def _mib(text: str) -> int | None:
    match = _AMOUNT.match(text.strip())
    if match is None:
        return None
    unit = (match["unit"] or "MiB")[0].lower()
    return int(int(match["number"]) * _MIB[unit])


def _number(text: str) -> int | None:
    """A count of at most nine digits; anything else is unknown."""
    return int(text) if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) else None


def _marker(text: str) -> bool:
    """Whether the cell is one of the many spellings of "unknown": any bracketed one is."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return True
    return text.lower() in _UNKNOWN or "deprecated" in text.lower()


def _known(text: str) -> str:
    return "" if _marker(text) else text.strip()


def _yes(block: Element, path: str) -> bool:
    return _find_text(block, path).lower() == "yes"


def _find_text(element: Element | None, path: str) -> str:
    return (element.findtext(path) or "").strip() if element is not None else ""

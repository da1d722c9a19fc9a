"""A node's settings and cards as JSON: for the control API and fleet files. Strictly read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engines.virtual.cards import Card, MigInstance, card_uuid, in_slot, instance_uuid
from engines.virtual.node import VirtualNode

SETTINGS: Mapping[str, type | tuple[type, ...]] = {
    "toolkit": bool,
    "default_runtime": str,
    "cdi": bool,
    "driver_failure": str,
    "smi_failure": str,
    "smi_exit_code": int,
    "smi_hangs": bool,
    "any_image": bool,
    "pull_seconds": (int, float),
    "image_env": dict,
    "platform": str,
    "operating_system": str,
    "kernel_version": str,
    "security_options": list,
    "data_root": str,
    "api_version": str,
    "min_api_version": str,
    "clock_skew_s": (int, float),
}
"""What may be set on a node, and its type."""

KINDS: Mapping[str, Mapping[str, Any]] = {
    "linux": {
        "platform": "Virtual",
        "operating_system": "Miabi virtual node",
        "kernel_version": "6.1.0-virtual",
        "security_options": ["name=seccomp,profile=builtin", "name=cgroupns"],
        "data_root": "/var/lib/docker",
    },
    "rootless": {
        "security_options": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
        "data_root": "/home/operator/.local/share/docker",
    },
    "wsl2": {"operating_system": "Ubuntu 24.04.1 LTS", "kernel_version": "5.15.167.4-microsoft-standard-WSL2"},
    "docker-desktop": {
        "platform": "Docker Desktop 4.38.0 (181591)",
        "operating_system": "Docker Desktop",
        "kernel_version": "5.15.167.4-microsoft-standard-WSL2",
    },
    "snap": {"data_root": "/var/snap/docker/common/var-lib-docker"},
}
"""Hosts of a kind that people meet; each sets what an engine there says of itself."""

_CARD: Mapping[str, type | tuple[type, ...]] = {
    "model": str,
    "memory_mib": (int, type(None)),
    "memory_text": str,
    "uuid": str,
    "count": int,
    "mig": list,
    "mig_enabled": bool,
    "reset_required": bool,
    "uncorrectable_errors": int,
    "remap_failed": bool,
    "lost": bool,
}
_INSTANCE: Mapping[str, type | tuple[type, ...]] = {"profile": str, "memory_mib": int, "uuid": str, "count": int}
_COUNT_LIMIT = 64


def apply_settings(node: VirtualNode, settings: Mapping[str, Any]) -> None:
    """Change ``node``: ``kind`` first, then ``cards`` and the single settings. All or nothing.

    Raises:
        ValueError: an unknown name or a value of the wrong type; says which.
    """
    changes = dict(settings)
    kind = changes.pop("kind", None)
    if kind is not None and (not isinstance(kind, str) or kind not in KINDS):
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    cards = read_cards(node.name, changes.pop("cards")) if "cards" in changes else None
    check_fields("the node", changes, SETTINGS)
    _check_contents(changes)
    for name, value in {**({**KINDS["linux"], **KINDS[kind]} if kind else {}), **changes}.items():
        setattr(node, name, value)
    if cards is not None:
        node.cards = cards


def _check_contents(changes: Mapping[str, Any]) -> None:
    for name in ("api_version", "min_api_version"):
        if not re.fullmatch(r"\d+\.\d+", changes.get(name, "1.47")):
            raise ValueError(f"{name} must be like 1.47")
    if not all(isinstance(each, str) for each in changes.get("security_options", [])):
        raise ValueError("security_options must be a list of texts")
    for image, env in changes.get("image_env", {}).items():
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            raise ValueError(f"image_env.{image} must be an object of texts")


def read_cards(node: str, entries: Any) -> list[Card]:
    """Cards from their JSON. ``count`` repeats an entry; UUIDs not given follow from name and slot.

    Raises:
        ValueError: an unknown field or a wrong value; says which.
    """
    if not isinstance(entries, list):
        raise ValueError("cards must be a list")
    cards: list[Card] = []
    for number, entry in enumerate(entries):
        where = f"cards[{number}]"
        check_fields(where, entry, _CARD)
        fields = dict(entry)
        count = _count(where, fields)
        if "uuid" in fields and count > 1:
            raise ValueError(f"{where} has one uuid for {count} cards")
        instances = fields.pop("mig", [])
        for _ in range(count):
            slot = len(cards)
            uuid = fields.get("uuid") or card_uuid(node, slot)
            mig = _read_instances(node, slot, instances, f"{where}.mig")
            cards.append(in_slot(Card(**{**fields, "uuid": uuid, "mig": mig}), slot))
    known = [each for card in cards for each in [card.uuid, *(one.uuid for one in card.mig)]]
    if len(set(known)) != len(known):
        raise ValueError("two cards have the same uuid")
    return cards


def _read_instances(node: str, slot: int, entries: Sequence[Any], where: str) -> tuple[MigInstance, ...]:
    instances: list[MigInstance] = []
    for number, entry in enumerate(entries):
        check_fields(f"{where}[{number}]", entry, _INSTANCE)
        fields = dict(entry)
        for _ in range(_count(f"{where}[{number}]", fields)):
            uuid = fields.get("uuid") or instance_uuid(node, slot, len(instances))
            instances.append(MigInstance(**{**fields, "uuid": uuid}))
    return tuple(instances)


def _count(where: str, fields: dict[str, Any]) -> int:
    count = fields.pop("count", 1)
    if not 1 <= count <= _COUNT_LIMIT:
        raise ValueError(f"{where}.count must be from 1 to {_COUNT_LIMIT}")
    return int(count)


def check_fields(where: str, value: Any, allowed: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raises ValueError unless ``value`` is an object with none but the ``allowed`` fields, of their types."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be an object")
    for name, each in value.items():
        if name not in allowed:
            raise ValueError(f"{where} has no {name!r}; it has {', '.join(sorted(allowed))}")
        # In Python a bool is an int, in JSON it is not.
        if not isinstance(each, allowed[name]) or (isinstance(each, bool) and allowed[name] is not bool):
            raise ValueError(f"{where}.{name} has the wrong type: {each!r}")


def settings_of(node: VirtualNode) -> dict[str, Any]:
    """The settings and cards as they are, in the same form."""
    return {name: getattr(node, name) for name in SETTINGS} | {"cards": [asdict(card) for card in node.cards]}

"""The volumes of one node."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.virtual.create_checks import check_volume_name
from engines.virtual.messages import ApiError


@dataclass(slots=True)
class Volumes:
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    anonymous: set[str] = field(default_factory=set)
    """Made for a container without a name: they go with it when it is removed with ``v``."""

    def ensure(
        self, name: str, labels: Mapping[str, str], created_at: str, *, anonymous: bool = False
    ) -> dict[str, Any]:
        """The volume of that name, made if it is not there. Raises ApiError for a name that cannot be."""
        name = name or secrets.token_hex(32)
        check_volume_name(name)
        if name not in self.records and anonymous:
            self.anonymous.add(name)
        return self.records.setdefault(
            name,
            {
                "CreatedAt": created_at,
                "Driver": "local",
                "Labels": dict(labels),
                "Mountpoint": f"/var/lib/docker/volumes/{name}/_data",
                "Name": name,
                "Options": None,
                "Scope": "local",
            },
        )

    def find(self, name: str) -> dict[str, Any]:
        if name not in self.records:
            raise ApiError(404, f"get {name}: no such volume")
        return self.records[name]

    def remove(self, name: str, users: list[str]) -> None:
        """``users``: ids of the containers that mount it. Raises ApiError when there is one."""
        self.find(name)
        if users:
            raise ApiError(409, f"remove {name}: volume is in use - [{', '.join(users)}]")
        del self.records[name]
        self.anonymous.discard(name)

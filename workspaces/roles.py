"""The four cumulative roles of a workspace. Pure.

viewer reads; developer also manages apps and deploys; admin also manages members,
tokens and settings; owner also deletes and transfers.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"
    DEVELOPER = "developer"
    ADMIN = "admin"
    OWNER = "owner"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def at_least(self, other: Role) -> bool:
        """Whether this role includes everything ``other`` may do."""
        return self.rank >= other.rank

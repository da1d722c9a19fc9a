"""Fields encrypted at rest with rotatable keys (``MIABI_ENCRYPTION_KEYS``)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.db import models


@lru_cache(maxsize=4)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def cipher() -> MultiFernet:
    """The cipher of the current keys: the first encrypts, all decrypt."""
    return _cipher(tuple(settings.MIABI_ENCRYPTION_KEYS))


if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField


class EncryptedJSONField(_TextField):
    """Any JSON value, stored as one Fernet token. It cannot be filtered on."""

    if TYPE_CHECKING:
        # What django-stubs' plugin reads: any JSON value may be assigned.
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def get_prep_value(self, value: Any) -> str | None:
        if value is None:
            return None
        return cipher().encrypt(json.dumps(value, separators=(",", ":")).encode()).decode()

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(cipher().decrypt(value.encode()))

    def to_python(self, value: Any) -> Any:
        return value

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""

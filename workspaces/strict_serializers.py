"""Serializers that refuse what they do not know.

DRF ignores unknown keys, so a misspelt limit would silently be none at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from django.db import models
from rest_framework import serializers

LARGEST_INTEGER = 2**31 - 1
DEEPEST = 32
MAX_TOLD = 200


def refuse_unstorable(value: Any, path: str = "", depth: int = 0) -> None:
    """Refuse what a database cannot keep, anywhere in ``value``, as malformed and not as a fault.

    That is the null character (PostgreSQL), half a surrogate pair (it has no UTF-8), and
    nesting that is deeper than anything the API has.

    Raises:
        serializers.ValidationError: naming the path.
    """
    if depth > DEEPEST:
        _refuse(path, "This is nested too deeply.")
    if isinstance(value, str) and (problem := _problem_of(value)):
        _refuse(path, problem)
    if isinstance(value, Mapping):
        for key, item in value.items():
            inside = f"{path}.{key}" if path else str(key)
            if problem := _problem_of(str(key)):
                _refuse(inside, problem)
            refuse_unstorable(item, inside, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            refuse_unstorable(item, f"{path}.{number}" if path else str(number), depth + 1)


def _problem_of(text: str) -> str:
    if "\x00" in text:
        return "Null characters are not allowed."
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "Half a surrogate pair is no character."
    return ""


def _refuse(path: str, problem: str) -> NoReturn:
    # The path is part of the answer, which must be writable itself.
    told = path[:MAX_TOLD].encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    raise serializers.ValidationError({told or "non_field_errors": problem})


class Strict(serializers.Serializer[Any]):
    """Mixin: an unknown key is an error naming it."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            refuse_unstorable(data)
            unknown = sorted(str(key) for key in set(data) - set(self.fields))
            if unknown:
                known = ", ".join(sorted(name for name, field in self.fields.items() if not field.read_only))
                raise serializers.ValidationError(
                    dict.fromkeys(unknown, f"There is no field of this name. Known: {known}."),
                    code="unknown_field",
                )
        return super().to_internal_value(data)


class Whole(Strict):
    """An object inside another one: given whole, also where the outer one is changed in part.

    DRF hands ``partial`` down, so a PATCH would take a mount without its path.
    """

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        for name, field in self.fields.items():
            if field.read_only or name in data:
                continue
            if field.required:
                raise serializers.ValidationError({name: field.error_messages["required"]}, code="required")
            value.setdefault(field.source, field.get_default())
        return value


class StrictModelSerializer(Strict, serializers.ModelSerializer[Any]):
    """A model's fields, unknown keys refused, and numbers held to what every database can keep."""

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        field_class, options = super().build_standard_field(field_name, model_field)
        if isinstance(model_field, models.IntegerField) and not isinstance(model_field, models.BigIntegerField):
            # SQLite would take 64 bits, and PostgreSQL fail over them.
            options["max_value"] = min(options.get("max_value", LARGEST_INTEGER), LARGEST_INTEGER)
        return field_class, options

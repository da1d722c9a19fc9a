"""Fields of the tenants' API: text and quantities that a pure check accepts or refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

MAX_LABELS = 64


def check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS or any(not 0 < len(key) <= 63 for key in labels):
        raise serializers.ValidationError(
            f"At most {MAX_LABELS} labels are possible, with names of 1 to 63 characters."
        )


def check_listed_once(items: list[str]) -> None:
    twice = next((item for number, item in enumerate(items) if item in items[:number]), None)
    if twice is not None:
        raise serializers.ValidationError(f"{twice} is listed twice.")


class Labels(serializers.DictField):
    def __init__(self, **kwargs: Any) -> None:
        child = serializers.CharField(max_length=255, allow_blank=True)
        super().__init__(child=child, validators=[check_labels], **kwargs)


class CheckedText(serializers.CharField):
    """Text that a pure check accepts or refuses with a sentence."""

    def __init__(self, check: Callable[[str], str], **kwargs: Any) -> None:
        self.check = check
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if text == "":
            return text
        try:
            return self.check(text)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number"}]})
class Quantity(serializers.Field[int, Any, str, int]):
    """CPU (``"500m"``, ``2``) or memory (``"16Gi"``), stored as a whole number."""

    def __init__(self, parse: Callable[[Any], int], write: Callable[[int], str], **kwargs: Any) -> None:
        self.parse, self.write = parse, write
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, str | int | float):
            raise serializers.ValidationError("Write a number or text such as 500m or 16Gi.")
        try:
            return self.parse(data)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error

    def to_representation(self, value: int) -> str:
        return self.write(value)

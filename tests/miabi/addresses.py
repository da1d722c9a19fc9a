"""Every address of the product, found by walking Django's own table of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True, slots=True)
class Address:
    template: str
    """``api/v1/workspaces/{workspace_slug}``"""
    view: Any

    def filled(self, **values: object) -> str:
        return "/" + self.template.format(**values)

    def __str__(self) -> str:
        return self.template


def addresses(below: str = "", entries: Iterable[URLPattern | URLResolver] | None = None) -> Iterator[Address]:
    for entry in entries if entries is not None else get_resolver().url_patterns:
        template = below + _template(entry)
        if isinstance(entry, URLResolver):
            yield from addresses(template, entry.url_patterns)
        else:
            yield Address(template, entry.callback)


def _template(entry: URLPattern | URLResolver) -> str:
    text = str(entry.pattern).removeprefix("^").removesuffix("$").removesuffix("\\Z")
    if "(?P<" in text:
        return re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"{\1}", text)
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", text)

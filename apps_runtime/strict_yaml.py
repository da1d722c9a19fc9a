"""YAML as it stands on the page, within bounds. Pure.

YAML 1.1 reads ``1.10`` as 1.1, ``0755`` as 493, ``12:30:45`` as 45045 and ``no`` as false:
a tag would name another image, a variable get another value. Here a plain scalar is its
own text; only whole decimal numbers and null are anything else. Aliases, tags and doubled
keys are refused, and the number of values and their depth are bounded, so no small text
unfolds into a large one and no text keeps a server busy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

MAX_VALUES = 20_000
MAX_DEPTH = 32
_CORE = "tag:yaml.org,2002:"
_TAGS = frozenset(_CORE + name for name in ("null", "int", "str", "seq", "map"))


class YamlError(ValueError):
    """The message says in which line, at which path, and what is wrong."""


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's composer without its constructors: nodes with lines, nothing built."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.values = 0
        self.level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        at = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise YamlError(f"line {at}: YAML aliases are not allowed; write the value out.")
        self.values += 1
        self.level += 1
        if self.values > MAX_VALUES:
            raise YamlError(f"line {at}: there are more than {MAX_VALUES} values.")
        if self.level > MAX_DEPTH:
            raise YamlError(f"line {at}: this is nested too deeply.")
        node = super().compose_node(parent, index)
        self.level -= 1
        if node is not None and node.tag not in _TAGS:
            raise YamlError(f"line {at}: the YAML tag {node.tag.replace(_CORE, '!!')} is not allowed.")
        return node


_Loader.add_implicit_resolver(_CORE + "null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_CORE + "int", re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z", re.ASCII), list("-0123456789"))


def documents(text: str) -> Iterator[yaml.Node]:
    """The top node of each document that is not empty.

    Raises:
        YamlError
    """
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None and not is_null(node):
                yield node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{_said_by(error)}.") from error


def section(node: yaml.Node, path: str, known: Collection[str]) -> dict[str, yaml.Node]:
    """The mapping's values by key, all of them among ``known``. Raises YamlError."""
    if not isinstance(node, yaml.MappingNode):
        fail(node, path or "the document", "is no mapping")
    for key in node.value:
        name = _key(key[0])
        if name not in known:
            fail(key[0], f"{path}.{name}" if path else name, f"is not known. Known: {', '.join(sorted(known))}")
    return _mapping(node, path)


def value(node: yaml.Node, path: str) -> Any:
    """The node as plain values: mapping, list, text, whole number or None. Raises YamlError."""
    if isinstance(node, yaml.MappingNode):
        return {key: value(item, f"{path}.{key}") for key, item in _mapping(node, path).items()}
    if isinstance(node, yaml.SequenceNode):
        return [value(item, f"{path}[{number}]") for number, item in enumerate(node.value)]
    if is_null(node):
        return None
    if node.tag == _CORE + "int":
        try:
            return int(node.value)
        except ValueError:
            fail(node, path, "is no whole number")
    return node.value


def is_null(node: yaml.Node) -> bool:
    return bool(node.tag == _CORE + "null")


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def fail(node: yaml.Node, path: str, what: str) -> NoReturn:
    """Raises YamlError with the node's line."""
    raise YamlError(f"line {line_of(node)}: {path} {what}.")


def _said_by(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or "this is no YAML text")


def _mapping(node: yaml.MappingNode, path: str) -> dict[str, yaml.Node]:
    found: dict[str, yaml.Node] = {}
    for key_node, item in node.value:
        key = _key(key_node)
        if key in found:
            fail(key_node, f"{path}.{key}" if path else key, "stands here twice")
        found[key] = item
    return found


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or is_null(node):
        raise YamlError(f"line {line_of(node)}: a key is no text.")
    return str(node.value)

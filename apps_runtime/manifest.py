"""Manifests: YAML documents to and from declarations, strictly. Pure.

An unknown key is an error that names its path and line. The workspace stands outside, so
one file serves many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from apps_runtime.strict_yaml import YamlError, documents, fail, is_null, line_of, section, value

API_VERSION = "miabi.io/v1"
KINDS = ("Volume", "Secret", "Registry", "Application")
MAX_BYTES = 256 * 1024
MAX_DOCUMENTS = 100

# Manifest key -> field of the API's serializer. A nested mapping is a section of its own.
_APPLICATION: dict[str, Any] = {
    "image": "image",
    "tag": "tag",
    "digest": "digest",
    "command": "command",
    "ports": "ports",
    "env": "env",
    "secretEnv": "secret_env",
    "secretRefs": "secret_refs",
    "mounts": "mounts",
    "healthCommand": "health_command",
    "runtime": "runtime",
    "replicas": "replicas",
    "node": "node",
    "resources": {
        "cpu": "cpu",
        "memory": "memory",
        "gpu": "gpu",
        "gpuKind": "gpu_kind",
        "gpuCapabilities": "gpu_capabilities",
    },
}
_SPECS: dict[str, dict[str, Any]] = {
    "Application": _APPLICATION,
    "Volume": {},
    "Secret": {"data": "data"},
    "Registry": {"server": "server", "username": "username", "password": "password"},
}
# Keys of the small mappings inside a list.
_ITEMS: dict[str, dict[str, str]] = {
    "mounts": {"volume": "volume", "path": "path", "readOnly": "read_only"},
    "ports": {"container": "container", "publish": "publish", "protocol": "protocol"},
}


class ManifestError(ValueError):
    """The text is no manifest; the message names path and line."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: ``spec.resources.cpu`` in line 12."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """One object as declared: ``fields`` have the names and shapes of the API's serializers."""

    kind: str
    name: str
    fields: Mapping[str, Any]
    line: int
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each field stands, by its dotted path in the API: ``mounts.0.path``."""

    def place_of(self, path: str) -> Place:
        """Where the API's field ``path`` stands, or what it would stand in."""
        while path not in self.places and "." in path:
            path = path.rpartition(".")[0]
        return self.places.get(path, Place(path, self.line))


def parse(text: str) -> list[Document]:
    """All documents of ``text``, in the order in which they are to be applied: what an
    application names comes before it.

    Raises:
        ManifestError
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ManifestError(f"A manifest has at most {MAX_BYTES // 1024} KiB.")
    found: list[Document] = []
    try:
        for node in documents(text):
            if len(found) == MAX_DOCUMENTS:
                raise ManifestError(f"A manifest holds at most {MAX_DOCUMENTS} documents.")
            found.append(_document(node))
    except YamlError as error:
        raise ManifestError(str(error)) from error
    if not found:
        raise ManifestError("The manifest holds no document.")
    seen: dict[tuple[str, str], int] = {}
    for document in found:
        key = (document.kind, document.name)
        if key in seen:
            raise ManifestError(
                f"line {document.line}: {document.kind} {document.name} was declared in line {seen[key]} already."
            )
        seen[key] = document.line
    return sorted(found, key=lambda document: KINDS.index(document.kind))


def render(name: str, labels: Mapping[str, str], declared: Mapping[str, Any]) -> str:
    """An application as YAML that recreates it. ``declared`` is the API's own answer.

    A secret's value reads null there and stays null here: applied where the app exists, null
    keeps the stored value; elsewhere it must be filled in first.
    """
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    spec = dict(_unmap(_APPLICATION, declared))
    document = {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": spec}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _unmap(section: Mapping[str, Any], declared: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, target in section.items():
        if isinstance(target, Mapping):
            inner = dict(_unmap(target, declared))
            if inner:
                yield key, inner
            continue
        value = declared.get(target)
        if value in (None, "", [], {}, 0) or (target == "replicas" and value == 1):
            continue
        if target == "runtime" and value == "container":
            continue
        if target == "mounts":
            value = [_mount(mount) for mount in value]
        elif target == "ports":
            value = [{key: item for key, item in port.items() if item not in (False, "tcp")} for port in value]
        yield key, value


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    told = {"volume": mount["volume"], "path": mount["path"]}
    return told | ({"readOnly": True} if mount.get("read_only") else {})


def _document(node: yaml.Node) -> Document:
    top = section(node, "", {"apiVersion", "kind", "metadata", "spec"})
    version = _text(top, "apiVersion", node)
    if version != API_VERSION:
        fail(top["apiVersion"], "apiVersion", f"is {version[:40]!r}, known is {API_VERSION}")
    kind = _text(top, "kind", node)
    if kind not in KINDS:
        fail(top["kind"], "kind", f"is {kind[:40]!r}, known are {', '.join(KINDS)}")
    metadata = section(_required(top, "metadata", node), "metadata", {"name", "labels"})
    name = _text(metadata, "name", node, "metadata.")
    fields: dict[str, Any] = {}
    places = {"name": Place("metadata.name", line_of(metadata["name"]))}
    if "labels" in metadata:
        if kind not in ("Application", "Volume"):
            fail(metadata["labels"], "metadata.labels", f"is not known for a {kind}")
        fields["labels"] = value(metadata["labels"], "metadata.labels")
        _remember(places, "labels", "metadata.labels", metadata["labels"])
    spec_node = top.get("spec")
    if spec_node is None and _SPECS[kind]:
        fail(node, "spec", "is missing")
    if spec_node is not None:
        _map(spec_node, "spec", _SPECS[kind], fields, places)
    return Document(kind, name, fields, line_of(node), places)


def _map(
    node: yaml.Node, path: str, known: Mapping[str, Any], fields: dict[str, Any], places: dict[str, Place]
) -> None:
    for key, item in section(node, path, known.keys()).items():
        target = known[key]
        if isinstance(target, Mapping):
            _map(item, f"{path}.{key}", target, fields, places)
            continue
        if target in _ITEMS:
            fields[target] = _items(item, f"{path}.{key}", _ITEMS[target])
        else:
            fields[target] = value(item, f"{path}.{key}")
        _remember(places, target, f"{path}.{key}", item)


def _items(node: yaml.Node, path: str, known: Mapping[str, str]) -> list[Any]:
    """A list of small mappings, whose keys are checked here so that the error has a line."""
    if not isinstance(node, yaml.SequenceNode):
        fail(node, path, "is no list")
    items = []
    for number, item in enumerate(node.value):
        where = f"{path}[{number}]"
        parts = section(item, where, known.keys())
        items.append({known[key]: value(part, f"{where}.{key}") for key, part in parts.items()})
    return items


def _remember(places: dict[str, Place], field_path: str, path: str, node: yaml.Node) -> None:
    places[field_path] = Place(path, line_of(node))
    if isinstance(node, yaml.MappingNode):
        names = _ITEMS.get(field_path.split(".", 1)[0], {})
        for key, item in node.value:
            _remember(places, f"{field_path}.{names.get(key.value, key.value)}", f"{path}.{key.value}", item)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _remember(places, f"{field_path}.{number}", f"{path}[{number}]", item)


def _required(parts: Mapping[str, yaml.Node], key: str, parent: yaml.Node, prefix: str = "") -> yaml.Node:
    if key not in parts:
        fail(parent, prefix + key, "is missing")
    return parts[key]


def _text(parts: Mapping[str, yaml.Node], key: str, parent: yaml.Node, prefix: str = "") -> str:
    node = _required(parts, key, parent, prefix)
    if not isinstance(node, yaml.ScalarNode) or is_null(node) or not node.value:
        fail(node, prefix + key, "is no text")
    return str(node.value)

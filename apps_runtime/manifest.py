"""Manifests: YAML documents to and from declarations, strictly. Pure.

An unknown key is an error that names its path and line. Aliases are refused, so no small
text unfolds into a large one, and the workspace stands outside, so one file serves many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

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
_MOUNT_KEYS = {"volume": "volume", "path": "path", "readOnly": "read_only"}


class ManifestError(ValueError):
    """The text is no manifest; the message names path and line."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object as declared: ``fields`` have the names and shapes of the API's serializers."""

    kind: str
    name: str
    fields: Mapping[str, Any]
    line: int
    lines: Mapping[str, int] = field(default_factory=dict)
    """API field -> line of the manifest."""


def parse(text: str) -> list[Document]:
    """All documents of ``text``, in the order in which they are to be applied: what an
    application names comes before it.

    Raises:
        ManifestError
    """
    if len(text.encode()) > MAX_BYTES:
        raise ManifestError(f"A manifest has at most {MAX_BYTES // 1024} KiB.")
    documents = [_document(node) for node in _nodes(text)]
    if not documents:
        raise ManifestError("The manifest holds no document.")
    seen: dict[tuple[str, str], int] = {}
    for document in documents:
        key = (document.kind, document.name)
        if key in seen:
            raise ManifestError(
                f"line {document.line}: {document.kind} {document.name} was declared in line {seen[key]} already."
            )
        seen[key] = document.line
    return sorted(documents, key=lambda document: KINDS.index(document.kind))


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


def _nodes(text: str) -> Iterator[yaml.Node]:
    loader = yaml.SafeLoader(text)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise ManifestError(f"line {line}: YAML aliases are not allowed; write the value out.")
        count = 0
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            count += 1
            if count > MAX_DOCUMENTS:
                raise ManifestError(f"A manifest holds at most {MAX_DOCUMENTS} documents.")
            if not (isinstance(node, yaml.ScalarNode) and node.value == ""):
                yield node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ManifestError(f"{where}{getattr(error, 'problem', None) or 'This is no YAML'}.") from error
    except RecursionError as error:
        raise ManifestError("The manifest is nested too deeply.") from error
    finally:
        loader.dispose()


def _document(node: yaml.Node) -> Document:
    top = _section(node, "", {"apiVersion", "kind", "metadata", "spec"})
    version = _text(top, "apiVersion", node)
    if version != API_VERSION:
        raise _error(top["apiVersion"], "apiVersion", f"is {version!r}, known is {API_VERSION}")
    kind = _text(top, "kind", node)
    if kind not in KINDS:
        raise _error(top["kind"], "kind", f"is {kind!r}, known are {', '.join(KINDS)}")
    metadata = _section(_required(top, "metadata", node), "metadata", {"name", "labels"})
    name = _text(metadata, "name", node, "metadata.name")
    fields: dict[str, Any] = {}
    lines: dict[str, int] = {}
    if "labels" in metadata:
        if kind not in ("Application", "Volume"):
            raise _error(metadata["labels"], "metadata.labels", f"is not known for a {kind}")
        fields["labels"] = _construct(metadata["labels"])
        lines["labels"] = _line(metadata["labels"])
    spec_node = top.get("spec")
    if spec_node is None and _SPECS[kind]:
        raise _error(node, "spec", "is missing")
    if spec_node is not None:
        _map(spec_node, "spec", _SPECS[kind], fields, lines)
    return Document(kind, name, fields, _line(node), lines)


def _map(node: yaml.Node, path: str, known: Mapping[str, Any], fields: dict[str, Any], lines: dict[str, int]) -> None:
    for key, value in _section(node, path, set(known)).items():
        target = known[key]
        if isinstance(target, Mapping):
            _map(value, f"{path}.{key}", target, fields, lines)
            continue
        lines[target] = _line(value)
        if target in ("mounts", "ports"):
            fields[target] = _items(value, f"{path}.{key}", _MOUNT_KEYS if target == "mounts" else None)
        else:
            fields[target] = _construct(value)


def _items(node: yaml.Node, path: str, keys: Mapping[str, str] | None) -> list[Any]:
    """A list of small mappings, whose keys are checked here so that the error has a line."""
    if not isinstance(node, yaml.SequenceNode):
        raise _error(node, path, "is no list")
    known = keys or {"container": "container", "publish": "publish", "protocol": "protocol"}
    items = []
    for number, item in enumerate(node.value):
        section = _section(item, f"{path}[{number}]", set(known))
        items.append({known[key]: _construct(value) for key, value in section.items()})
    return items


def _section(node: yaml.Node, path: str, known: set[str]) -> dict[str, yaml.Node]:
    """The mapping's values by key; unknown, doubled and non-text keys are errors."""
    if not isinstance(node, yaml.MappingNode):
        raise _error(node, path or "the document", "is no mapping")
    found: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        where = f"{path}.{key}" if path else str(key)
        if key not in known:
            raise _error(key_node, where, f"is not known. Known: {', '.join(sorted(known))}")
        if key in found:
            raise _error(key_node, where, "stands here twice")
        found[key] = value
    return found


def _construct(node: yaml.Node) -> Any:
    _refuse_doubled_keys(node)
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ManifestError(f"line {_line(node)}: {error}".splitlines()[0]) from error
    finally:
        loader.dispose()


def _refuse_doubled_keys(node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise _error(node, str(key), "stands here twice")
        for _, value in node.value:
            _refuse_doubled_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_doubled_keys(item)


def _required(section: Mapping[str, yaml.Node], key: str, parent: yaml.Node) -> yaml.Node:
    if key not in section:
        raise _error(parent, key, "is missing")
    return section[key]


def _text(section: Mapping[str, yaml.Node], key: str, parent: yaml.Node, path: str = "") -> str:
    node = _required(section, key, parent)
    if not isinstance(node, yaml.ScalarNode) or not node.value:
        raise _error(node, path or key, "is no text")
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _error(node: yaml.Node, path: str, what: str) -> ManifestError:
    return ManifestError(f"line {_line(node)}: {path} {what}.")

"""Apply a manifest to a workspace: all of it or nothing, and twice is the same as once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from rest_framework.serializers import BaseSerializer, ValidationError

from apps_runtime import belongings, declaring, lifecycle
from apps_runtime.belongings_serializers import RegistrySerializer, SecretSerializer, VolumeSerializer
from apps_runtime.fitting import Fit, fit_of
from apps_runtime.manifest import Document, ManifestError, parse
from apps_runtime.models import App, Registry, Secret, Volume
from apps_runtime.serializers import AppSerializer
from apps_runtime.specs import spec_of
from gpus.models import Node
from refusals import Malformed, Refusal
from workspaces.audit import Actor
from workspaces.models import Workspace

# What an application that leaves a field out means by that, so that applying a manifest
# again resets what was changed by hand.
_DEFAULTS: dict[str, Any] = {
    "labels": {},
    "tag": "",
    "digest": "",
    "command": [],
    "env": {},
    "secret_env": [],
    "secret_refs": [],
    "ports": [],
    "mounts": [],
    "health_command": [],
    "cpu_millis": None,
    "memory_mib": None,
    "gpu": 0,
    "gpu_kind": "",
    "gpu_capabilities": [],
    "runtime": "container",
    "replicas": 1,
    "node": None,
}
MASK = "***"


class ManifestInvalid(Malformed):
    code = "manifest_invalid"


@dataclass(slots=True)
class Change:
    """What applying one document does, or would do."""

    kind: str
    name: str
    action: str
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    fit: Fit | None = None
    deployment: int | None = None
    app: App | None = None
    """The application as it is, or would be, declared."""


class _Undo(Exception):
    pass


def apply(
    workspace: Workspace, text: str, *, actor: Actor, dry_run: bool = False, deploy: bool = False
) -> list[Change]:
    """Bring the workspace to what ``text`` declares; what it does not name is left alone.

    ``dry_run`` does it all and takes it back, so that it refuses exactly what applying
    would refuse, and adds whether each application fits by itself, node by node. ``deploy``
    also deploys every application that was created, changed or is not running.

    Raises:
        ManifestInvalid: with path and line.
        Refusal: what declaring and deploying refuse; then nothing is applied.
    """
    try:
        documents = parse(text)
    except ManifestError as error:
        raise ManifestInvalid(str(error), attr="manifest") from error
    if dry_run:
        return _try_out(workspace, documents, actor)
    with transaction.atomic():
        changes = _declare(workspace, documents, actor)
        if deploy:
            _deploy(workspace, changes, actor)
    return changes


def _try_out(workspace: Workspace, documents: list[Document], actor: Actor) -> list[Change]:
    """What applying would change; whether it fits is looked up once the lock is given back."""
    changes: list[Change] = []
    try:
        with transaction.atomic():
            changes = _declare(workspace, documents, actor)
            raise _Undo
    except _Undo:
        pass
    for change in changes:
        if change.app is not None:
            if change.action == "create":
                # Its key was taken back with it, and may be another app's by now.
                change.app.pk = None
            change.fit = fit_of(workspace, change.app, spec_of(change.app))
    return changes


def _declare(workspace: Workspace, documents: list[Document], actor: Actor) -> list[Change]:
    Workspace.objects.lock(workspace.pk)
    return [_declare_one(workspace, document, actor) for document in documents]


def _declare_one(workspace: Workspace, document: Document, actor: Actor) -> Change:
    try:
        match document.kind:
            case "Application":
                return _application(workspace, document, actor)
            case "Volume":
                return _volume(workspace, document, actor)
            case "Secret":
                return _secret(workspace, document, actor)
            case _:
                return _registry(workspace, document, actor)
    except ManifestInvalid:
        raise
    except Refusal as refusal:
        refusal.detail = f"{document.kind} {document.name} (line {document.line}): {refusal.detail}"
        raise


def _application(workspace: Workspace, document: Document, actor: Actor) -> Change:
    fields = _DEFAULTS | _valid(AppSerializer(data={"name": document.name, **document.fields}), document)
    fields.pop("name")
    app = App.objects.filter(workspace=workspace, name=document.name).first()
    if app is None:
        action, diff = "create", {}
        app = declaring.create_app(workspace, document.name, fields, actor=actor)
    else:
        before = {name: getattr(app, name) for name in fields}
        app = declaring.update_app(app, fields, actor=actor)
        diff = _diff(before, {name: getattr(app, name) for name in fields})
        action = "update" if diff else "unchanged"
    app.workspace = workspace
    return Change("Application", app.name, action, diff, declaring.warnings_of(app), app=app)


def _volume(workspace: Workspace, document: Document, actor: Actor) -> Change:
    fields = _valid(VolumeSerializer(data={"name": document.name, **document.fields}), document)
    volume = Volume.objects.filter(workspace=workspace, name=document.name).first()
    if volume is None:
        belongings.create_volume(workspace, fields, actor=actor)
        return Change("Volume", document.name, "create")
    labels = fields.get("labels", {})
    diff = _diff({"labels": volume.labels}, {"labels": labels})
    if diff:
        belongings.change_volume(volume, labels, actor=actor)
    return Change("Volume", document.name, "update" if diff else "unchanged", diff)


def _secret(workspace: Workspace, document: Document, actor: Actor) -> Change:
    fields = _valid(SecretSerializer(data={"name": document.name, **document.fields}), document)
    secret = Secret.objects.filter(workspace=workspace, name=document.name).first()
    if secret is None:
        belongings.create_secret(workspace, fields, actor=actor)
        return Change("Secret", document.name, "create")
    if secret.data == fields["data"]:
        return Change("Secret", document.name, "unchanged")
    before = dict.fromkeys(secret.keys, MASK)
    belongings.change_secret(secret, fields["data"], actor=actor)
    after = dict.fromkeys(sorted(fields["data"]), MASK)
    return Change("Secret", document.name, "update", {"data": {"before": before, "after": after}})


def _registry(workspace: Workspace, document: Document, actor: Actor) -> Change:
    fields = _valid(RegistrySerializer(data={"name": document.name, **document.fields}), document)
    registry = Registry.objects.filter(workspace=workspace, name=document.name).first()
    if registry is None:
        belongings.create_registry(workspace, fields, actor=actor)
        return Change("Registry", document.name, "create")
    before = {name: getattr(registry, name) for name in fields}
    diff = _diff(before, fields)
    if diff:
        belongings.change_registry(registry, fields, actor=actor)
    return Change("Registry", document.name, "update" if diff else "unchanged", diff)


def _deploy(workspace: Workspace, changes: list[Change], actor: Actor) -> None:
    names = [change.name for change in changes if change.app is not None]
    # A worker holds its app's row when it waits for a node, so the apps are locked before the nodes.
    locked = App.objects.select_for_update(no_key=True, of=("self",)).order_by("pk")
    apps = {app.name: app for app in locked.filter(workspace=workspace, name__in=names)}
    # Several placements in one transaction: who takes a second node while holding a first may
    # meet another who takes them the other way round. All are locked at once instead, by id.
    list(Node.objects.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    for change in changes:
        app = apps.get(change.name) if change.app is not None else None
        if app is None or (change.action == "unchanged" and app.desired_state == App.DesiredState.RUNNING):
            continue
        try:
            change.deployment = lifecycle.request_deploy(app, actor=actor).number
        except Refusal as refusal:
            refusal.detail = f"Application {change.name}: {refusal.detail}"
            raise


def _valid(serializer: BaseSerializer[Any], document: Document) -> dict[str, Any]:
    """The serializer's data; its first complaint becomes a manifest error with the line."""
    try:
        serializer.is_valid(raise_exception=True)
    except ValidationError as error:
        path, sentence = _first(error.detail)
        place = document.place_of(path)
        raise ManifestInvalid(f"line {place.line}: {place.path}: {sentence}", attr="manifest") from error
    return dict(serializer.validated_data)


def _first(detail: Any, path: str = "") -> tuple[str, str]:
    if isinstance(detail, Mapping):
        key, value = next(iter(detail.items()))
        return _first(value, f"{path}.{key}" if path else str(key))
    if isinstance(detail, list):
        for number, item in enumerate(detail):
            if item:
                return _first(item, path if isinstance(item, str) else f"{path}.{number}")
    return path, str(detail)


def _diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Changed fields with both values; values of variables and passwords are masked."""
    diff: dict[str, dict[str, Any]] = {}
    for name, value in after.items():
        if before.get(name) != value:
            diff[name] = {"before": _shown(name, before.get(name)), "after": _shown(name, value)}
    return diff


def _shown(name: str, value: Any) -> Any:
    if name == "env":
        return dict.fromkeys(sorted(value or {}), MASK)
    if name == "password":
        return MASK
    if name == "node":
        return value.name if value else None
    return value

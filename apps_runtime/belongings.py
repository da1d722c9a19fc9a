"""Volumes, secrets and registry credentials of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import IntegrityError, transaction

from apps_runtime.environment import check_secret_data
from apps_runtime.models import App, Registry, Secret, Volume
from refusals import Conflict, Malformed
from workspaces.audit import Actor, record
from workspaces.models import Workspace


class NameTaken(Conflict):
    code = "name_taken"


class InUse(Conflict):
    code = "in_use"


def create_volume(workspace: Workspace, fields: Mapping[str, Any], *, actor: Actor) -> Volume:
    """Raises NameTaken."""
    return _create(Volume(workspace=workspace, **fields), "volume.create", {"name": fields["name"]}, actor)


def change_volume(volume: Volume, labels: Mapping[str, str], *, actor: Actor) -> Volume:
    """Replace its labels, which is all that can change about a volume."""
    with transaction.atomic():
        before, volume.labels = volume.labels, dict(labels)
        volume.save(update_fields=["labels"])
        record(
            actor,
            "volume.change",
            volume,
            workspace=volume.workspace,
            before={"labels": before},
            after={"labels": volume.labels},
        )
    return volume


def create_secret(workspace: Workspace, fields: Mapping[str, Any], *, actor: Actor) -> Secret:
    """Raises NameTaken, Malformed, EnvReserved."""
    keys = _keys(fields["data"])
    secret = Secret(workspace=workspace, name=fields["name"], data=dict(fields["data"]), keys=keys)
    return _create(secret, "secret.create", {"name": fields["name"], "keys": keys}, actor)


def change_secret(secret: Secret, data: Mapping[str, str], *, actor: Actor) -> Secret:
    """Replace all values; apps take them up at their next deploy."""
    keys = _keys(data)
    with transaction.atomic():
        secret.data, secret.keys = dict(data), keys
        secret.save(update_fields=["data", "keys", "updated_at"])
        record(actor, "secret.change", secret, workspace=secret.workspace, after={"keys": keys})
    return secret


def create_registry(workspace: Workspace, fields: Mapping[str, Any], *, actor: Actor) -> Registry:
    """Raises NameTaken, for the server too: one set of credentials for each."""
    told = {"name": fields["name"], "server": fields["server"], "username": fields["username"]}
    return _create(Registry(workspace=workspace, **fields), "registry.create", told, actor)


def change_registry(registry: Registry, fields: Mapping[str, Any], *, actor: Actor) -> Registry:
    """Raises NameTaken."""
    try:
        with transaction.atomic():
            for name, value in fields.items():
                setattr(registry, name, value)
            registry.save()
            record(
                actor,
                "registry.change",
                registry,
                workspace=registry.workspace,
                after={"fields": sorted(fields)},
            )
    except IntegrityError as error:
        raise NameTaken("There are credentials for this server or of this name already.", attr="server") from error
    return registry


def delete_volume(volume: Volume, *, actor: Actor) -> None:
    """Forget a volume. Its data stays on the nodes until an operator removes it there.

    Raises:
        InUse: an app mounts it.
    """
    with transaction.atomic():
        Workspace.objects.lock(volume.workspace_id)
        _refuse_if_used(volume, [app for app in _apps(volume) if volume.name in {m["volume"] for m in app.mounts}])
        _delete(volume, "volume.delete", actor)


def delete_secret(secret: Secret, *, actor: Actor) -> None:
    """Raises InUse."""
    with transaction.atomic():
        Workspace.objects.lock(secret.workspace_id)
        _refuse_if_used(secret, [app for app in _apps(secret) if secret.name in app.secret_refs])
        _delete(secret, "secret.delete", actor)


def delete_registry(registry: Registry, *, actor: Actor) -> None:
    _delete(registry, "registry.delete", actor)


def _keys(data: Mapping[str, str]) -> list[str]:
    try:
        check_secret_data(data)
    except ValueError as error:
        raise Malformed(str(error), attr="data") from error
    return sorted(data)


def _apps(thing: Volume | Secret) -> list[App]:
    """The workspace's apps; its lock is held, so that none begins to use the thing meanwhile."""
    return list(App.objects.filter(workspace_id=thing.workspace_id).order_by("name"))


def _refuse_if_used(thing: Volume | Secret, users: list[App]) -> None:
    if users:
        names = ", ".join(app.name for app in users[:5])
        raise InUse(f"{thing.name} is used by {len(users)} app(s): {names}. Change or delete those first.")


_T = TypeVar("_T", Volume, Secret, Registry)


def _create(thing: _T, verb: str, told: dict[str, object], actor: Actor) -> _T:
    try:
        with transaction.atomic():
            thing.save(force_insert=True)
            record(actor, verb, thing, workspace=thing.workspace, after=told)
    except IntegrityError as error:
        raise NameTaken(
            f"There is one called {thing.name} already, or one for the same server.", attr="name"
        ) from error
    return thing


def _delete(thing: Volume | Secret | Registry, verb: str, actor: Actor) -> None:
    with transaction.atomic():
        record(actor, verb, thing, workspace=thing.workspace)
        thing.delete()

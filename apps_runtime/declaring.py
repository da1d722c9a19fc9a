"""Declare an app: the one way in for the API, manifests and pages.

Shapes (types, lengths, formats) are checked by the serializer in front; here stands what
depends on other rows or on policy. Declaring changes nothing that runs: the next deploy
does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from apps_runtime import admission
from apps_runtime.environment import check_env
from apps_runtime.gates import Ask
from apps_runtime.models import App, Secret, Volume
from gpus.kinds import VENDORS, known_kinds, matches_kind, models_of, tokens
from gpus.models import GpuDevice, Node
from plans.limits import exceeds
from refusals import Conflict, Malformed, PolicyRefusal
from workspaces.audit import Actor, record
from workspaces.models import Workspace

FIELDS = frozenset(
    {
        "labels",
        "image",
        "tag",
        "digest",
        "command",
        "env",
        "secret_env",
        "secret_refs",
        "ports",
        "mounts",
        "health_command",
        "cpu_millis",
        "memory_mib",
        "gpu",
        "gpu_kind",
        "gpu_capabilities",
        "runtime",
        "replicas",
        "node",
    }
)


class AppExists(Conflict):
    code = "app_exists"


class AppBeingDeleted(Conflict):
    code = "app_being_deleted"


class AppLimitReached(Conflict):
    code = "app_limit_reached"


class UnknownKind(PolicyRefusal):
    code = "gpu_unknown_kind"


class KindWithoutGpu(PolicyRefusal):
    code = "gpu_kind_without_gpu"


class UnknownNode(PolicyRefusal):
    code = "unknown_node"


class VolumeNotFound(PolicyRefusal):
    code = "volume_not_found"


class SecretNotFound(PolicyRefusal):
    code = "secret_not_found"


def create_app(workspace: Workspace, name: str, fields: Mapping[str, Any], *, actor: Actor) -> App:
    """A new app, stopped.

    Raises:
        AppExists, AppBeingDeleted, AppLimitReached, and what the checks of its fields refuse.
    """
    with transaction.atomic():
        locked = Workspace.objects.lock(workspace.pk)
        existing = App.objects.filter(workspace=locked, name=name).first()
        if existing is not None:
            raise _exists(existing)
        count = App.objects.filter(workspace=locked).count()
        limit = locked.limits.app_limit
        if admission.enforced() and exceeds(limit, count, 1):
            raise AppLimitReached(
                f"Workspace {locked.slug} has {count} of {limit} app(s). Delete one, or ask the operator for more.",
                facts={"limit": limit, "used": count, "requested": 1},
            )
        app = App(workspace=locked, name=name, created_by=actor.user)
        _fill(app, fields)
        try:
            with transaction.atomic():
                app.save()
        except IntegrityError as error:
            raise AppExists(f"There is an app called {name} already.", attr="name") from error
        record(actor, "app.create", app, workspace=locked, after=_told(app, fields))
    return app


def update_app(app: App, fields: Mapping[str, Any], *, actor: Actor) -> App:
    """Change what is given; a secret's value that is None or left out keeps the stored one.

    To drop a secret, leave it out of ``secret_env`` too.

    Raises: what the checks of its fields refuse, AppBeingDeleted.
    """
    with transaction.atomic():
        workspace = Workspace.objects.lock(app.workspace_id)
        locked = App.objects.select_for_update(no_key=True, of=("self",)).get(pk=app.pk)
        locked.workspace = workspace
        if locked.desired_state == App.DesiredState.DELETED:
            raise _exists(locked)
        before = {name: getattr(locked, name) for name in fields}
        _fill(locked, fields)
        changed = [name for name in fields if getattr(locked, name) != before[name]]
        if changed:
            locked.save(update_fields=[*changed, "updated_at"])
            record(
                actor,
                "app.update",
                locked,
                workspace=workspace,
                before={name: _masked(name, before[name]) for name in changed},
                after={name: _masked(name, getattr(locked, name)) for name in changed},
            )
    return locked


def kinds_for_tenants() -> list[str]:
    """Kinds a tenant may name: vendors and models of enabled devices, wherever they are."""
    return known_kinds(_offered_models())


def warnings_of(app: App) -> list[str]:
    """What was accepted and may still surprise: a model's name that several models answer to."""
    if not tokens(app.gpu_kind) - VENDORS:
        return []
    models = models_of(app.gpu_kind, _offered_models())
    if len(models) < 2:
        return []
    return [
        f"GPU kind {app.gpu_kind} is served by {' and by '.join(models)}, whichever is free. "
        "Name the model more fully to get only one of them."
    ]


def _fill(app: App, fields: Mapping[str, Any]) -> None:
    unknown = sorted(set(fields) - FIELDS)
    if unknown:
        raise Malformed(f"An app has no setting called {', '.join(unknown)}.", attr=unknown[0])
    stored_env, stored_secrets, stored_kind = dict(app.env), set(app.secret_env), app.gpu_kind
    for name, value in fields.items():
        setattr(app, name, value)
    if "env" in fields:
        app.env = _keep_secrets(fields["env"], stored_env, stored_secrets & set(app.secret_env))
    _refuse_revealing(app, stored_secrets, fields.get("env") or {})
    missing = sorted(set(app.secret_env) - set(app.env))
    if missing:
        raise Malformed(f"secret_env names {missing[0]}, which env does not hold. Give it a value.", attr="secret_env")
    try:
        check_env(app.env)
    except ValueError as error:
        raise Malformed(str(error), attr="env") from error
    _check_gpu(app, kind_is_new=app.gpu_kind != stored_kind)
    _check_named(app)


def _refuse_revealing(app: App, stored: set[str], given: Mapping[str, str | None]) -> None:
    """A stored secret does not become readable by taking its key out of ``secret_env``."""
    revealed = {key for key in stored - set(app.secret_env) if key in app.env and given.get(key) is None}
    if revealed:
        raise Malformed(
            f"{min(revealed)} is stored as a secret. Give its value anew to make it readable, or remove it.",
            attr="secret_env",
        )


def _keep_secrets(
    given: Mapping[str, str | None], stored: Mapping[str, str], secrets: Collection[str]
) -> dict[str, str]:
    """``given`` with the stored values where the value is None, and of ``secrets`` that are not named."""
    kept = {key: stored[key] for key in secrets if key in stored and key not in given}
    for key, value in given.items():
        if value is not None:
            kept[key] = value
        elif key in stored:
            kept[key] = stored[key]
        else:
            raise Malformed(f"{key} has no stored value: give one.", attr=f"env.{key}")
    return kept


def _offered_models() -> list[tuple[str, str]]:
    return list(GpuDevice.objects.filter(enabled=True).order_by().values_list("vendor", "model").distinct())


def _check_gpu(app: App, *, kind_is_new: bool) -> None:
    ask = Ask(gpu=app.gpu, runtime=app.runtime, replicas=app.replicas)
    admission.check_capability(app.workspace, ask)
    if not app.gpu_kind:
        return
    if app.gpu == 0:
        raise KindWithoutGpu("A GPU kind without GPUs has no meaning. Set gpu, or leave the kind out.", attr="gpu_kind")
    if not kind_is_new:
        # It was offered when it was chosen; while its cards are away the app can still be changed.
        return
    devices = _offered_models()
    if not any(matches_kind(model, vendor, app.gpu_kind) for vendor, model in devices):
        known = ", ".join(known_kinds(devices)) or "none at the moment"
        raise UnknownKind(
            f"No GPU of kind {app.gpu_kind} is offered. Kinds: {known}. Leave the kind out to take any.",
            attr="gpu_kind",
        )


def _check_named(app: App) -> None:
    """Every volume and secret it names is the workspace's own."""
    volumes = {mount["volume"] for mount in app.mounts}
    known = set(Volume.objects.filter(workspace_id=app.workspace_id, name__in=volumes).values_list("name", flat=True))
    if volumes - known:
        raise VolumeNotFound(
            f"There is no volume called {min(volumes - known)} in this workspace. Create it first.",
            attr="mounts",
        )
    wanted = set(app.secret_refs)
    found = set(Secret.objects.filter(workspace_id=app.workspace_id, name__in=wanted).values_list("name", flat=True))
    if wanted - found:
        raise SecretNotFound(
            f"There is no secret called {min(wanted - found)} in this workspace. Create it first.",
            attr="secret_refs",
        )


def find_node(name: str) -> Node:
    """The node a tenant pins an app to, by name. Raises PolicyRefusal for an unknown one."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise UnknownNode(f"There is no node called {name[:40]}. Leave the node out and one is chosen.", attr="node")
    return node


def _exists(app: App) -> Conflict:
    if app.desired_state == App.DesiredState.DELETED:
        return AppBeingDeleted(f"App {app.name} is being deleted. Wait until it is gone.", attr="name")
    return AppExists(f"There is an app called {app.name} already. Change it, or choose another name.", attr="name")


def _told(app: App, fields: Mapping[str, Any]) -> dict[str, object]:
    return {name: _masked(name, getattr(app, name)) for name in fields}


def _masked(name: str, value: Any) -> object:
    """For the audit trail: names of variables, never their values."""
    if name == "env":
        return sorted(value)
    if name == "node":
        return value.name if value else None
    return value

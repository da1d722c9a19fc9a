"""From "must end" to the end: the container is removed, then the leases end, then the row.

The order is the invariant: a lease ends only when the engine has confirmed that its
container is gone.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from django.conf import settings

from apps_runtime import leases, transitions
from apps_runtime.claimed_app import ClaimedApp
from apps_runtime.models import App, Deployment, Volume
from apps_runtime.specs import LABEL_PREFIX, volume_name
from apps_runtime.states import WITHOUT_CONTAINER, State
from engines.contract import ContainerNotFound, ContainerStatus, Engine, EngineError
from gpus.connections import engine_for
from gpus.models import Node, installation_uid

LOG_TAIL_LINES = 200
LOG_TAIL_BYTES = 64 * 1024


def finish(claimed: ClaimedApp, deployment: Deployment) -> None:
    """Bring a deployment that is marked as ending to its end."""
    if deployment.state in WITHOUT_CONTAINER:
        _end(claimed, deployment)
        return
    if deployment.state != State.STOPPING:
        with claimed.applying():
            transitions.move(deployment, State.STOPPING, code=deployment.reason_code, message=deployment.reason)
    engine = engine_for(deployment.node)
    container = deployment.engine_handle or _find(engine, deployment)
    tail = ""
    if container:
        tail = _log_tail(engine, container)
        engine.remove(container, grace_s=settings.MIABI_STOP_GRACE_SECONDS)
    _end(claimed, deployment, log_tail=tail)


def _end(claimed: ClaimedApp, deployment: Deployment, **changes: Any) -> None:
    with claimed.applying():
        target = State(deployment.exit_to)
        transitions.move(
            deployment,
            target,
            code=deployment.reason_code,
            message=deployment.reason,
            operator_detail=deployment.operator_detail,
            **changes,
        )
        leases.end(deployment)


def _find(engine: Engine, deployment: Deployment) -> str:
    """The container a lost ``create`` may have left, by its name; empty when there is none
    or it is somebody else's, which is never touched."""
    try:
        status = engine.inspect(deployment.container_name)
    except ContainerNotFound:
        return ""
    return status.id if is_of(status, deployment) else ""


def is_of(status: ContainerStatus, deployment: Deployment) -> bool:
    return status.labels.get(LABEL_PREFIX + "installation") == str(installation_uid()) and status.labels.get(
        LABEL_PREFIX + "deployment"
    ) == str(deployment.pk)


def _log_tail(engine: Engine, container: str) -> str:
    """The last lines, kept for people to read when the container is gone."""
    try:
        lines = b"".join(engine.logs(container, tail=LOG_TAIL_LINES))
    except EngineError:
        # Losing a log must not keep a container alive.
        return ""
    # PostgreSQL text cannot hold NUL.
    return lines[-LOG_TAIL_BYTES:].decode("utf-8", "replace").replace("\x00", "�")


def delete_if_asked(claimed: ClaimedApp) -> bool:
    """Delete the row of an app that is asked to be deleted and has nothing live any more.

    Returns whether it was deleted.
    """
    app = (
        App.objects.select_related("workspace")
        .filter(pk=claimed.app_id, desired_state=App.DesiredState.DELETED)
        .first()
    )
    if app is None:
        return False
    own = _own_volumes(app) if app.purge else []
    for node in Node.objects.filter(deployments__app=app).distinct():
        for name in own:
            engine_for(node).remove_volume(volume_name(app.workspace.slug, name))
    with claimed.applying():
        Volume.objects.filter(workspace_id=app.workspace_id, name__in=own).delete()
        app.delete()
    return True


def _own_volumes(app: App) -> list[str]:
    """Volumes that this app has used and no other app of the workspace names."""
    used = {mount["volume"] for mount in app.mounts}
    others = App.objects.filter(workspace_id=app.workspace_id).exclude(pk=app.pk).values_list("mounts", flat=True)
    return sorted(used - {mount["volume"] for mount in chain.from_iterable(others)})

"""What people may ask of an app: deploy, redeploy, start, restart, stop, delete.

Each decides in one short transaction and leaves the work to a worker. No engine is
spoken to here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Max

from apps_runtime import admission, leases, transitions
from apps_runtime.models import App, Deployment, DeploymentEvent
from apps_runtime.specs import env_of, spec_of
from apps_runtime.states import COMING_UP, State
from apps_runtime.waking import wake_after_commit
from refusals import Conflict, Refusal
from workspaces.audit import Actor, record
from workspaces.models import Workspace


class NeverDeployed(Conflict):
    code = "never_deployed"


class AlreadyRunning(Conflict):
    code = "already_running"


class NotRunning(Conflict):
    code = "not_running"


class BeingDeleted(Conflict):
    code = "app_being_deleted"


class AppGone(Refusal):
    code = "app_gone"
    status = 404


def request_deploy(app: App, *, actor: Actor) -> Deployment:
    """Admit one more attempt to run ``app`` as it is declared now, and queue it.

    Entitlement, quota, placement and the leases are decided together under the
    workspace's lock, so two callers cannot both take the last unit. What runs now goes on
    until the new attempt is about to create its container.

    Raises:
        Refusal: everything ``admission`` refuses with; the app's history keeps the refusal.
    """
    return _open(app, actor=actor, verb="app.deploy")


def request_redeploy(app: App, *, actor: Actor) -> Deployment:
    """Deploy again, as declared now. Raises NeverDeployed when there is nothing to repeat."""
    _last_of(app)
    return _open(app, actor=actor, verb="app.redeploy")


def request_start(app: App, *, actor: Actor) -> Deployment:
    """A fresh deploy of the last deployment's spec; entitlement is checked anew.

    Raises:
        AlreadyRunning: it runs, or is coming up.
    """
    last = app.deployments.first()
    if last is not None and last.state in COMING_UP | {State.RUNNING} and not last.exit_to:
        raise AlreadyRunning(f"App {app.name} is {last.state} already. Use restart to begin anew.")
    return _open(app, actor=actor, verb="app.start", repeat=last)


def request_restart(app: App, *, actor: Actor) -> Deployment:
    """Stop what runs and deploy the same spec again. Raises NotRunning."""
    last = app.deployments.first()
    if last is None or last.state != State.RUNNING or last.exit_to:
        state = last.state if last else "never deployed"
        raise NotRunning(f"App {app.name} is not running (it is {state}). Use start or deploy.")
    return _open(app, actor=actor, verb="app.restart", repeat=last)


def request_stop(app: App, *, actor: Actor) -> Deployment | None:
    """Ask that nothing of ``app`` runs; doing it twice is fine.

    Its units are free again once the engine has confirmed that the container is gone.
    Returns the latest deployment, or None when there never was one.
    """
    with transaction.atomic():
        app = _lock(app)
        if app.desired_state == App.DesiredState.RUNNING:
            App.objects.filter(pk=app.pk).update(desired_state=App.DesiredState.STOPPED)
            record(actor, "app.stop", app, workspace=app.workspace)
        _end_live(app, f"Stopped by {actor.name}.")
        wake_after_commit(app.pk)
    return app.deployments.first()


def request_delete(app: App, *, actor: Actor, purge: bool = False) -> None:
    """Ask that ``app`` is stopped and removed; with ``purge`` its own volumes go too.

    The row stays, shown as being deleted, until the engine has confirmed that its
    container is gone.
    """
    with transaction.atomic():
        app = _lock(app)
        if app.desired_state != App.DesiredState.DELETED:
            App.objects.filter(pk=app.pk).update(desired_state=App.DesiredState.DELETED, purge=purge)
            record(actor, "app.delete", app, workspace=app.workspace, after={"purge": purge})
        _end_live(app, f"Deleted by {actor.name}.")
        wake_after_commit(app.pk)


def _open(app: App, *, actor: Actor, verb: str, repeat: Deployment | None = None) -> Deployment:
    try:
        with transaction.atomic():
            app = _lock(app)
            if app.desired_state == App.DesiredState.DELETED:
                raise BeingDeleted(f"App {app.name} is being deleted. Wait until it is gone and create it again.")
            spec = dict(repeat.spec) if repeat is not None else spec_of(app)
            env = repeat.env if repeat is not None else env_of(app)
            admission.check_entitlement(app.workspace, app, spec)
            current = list(app.deployments.live().order_by("number"))
            placement = admission.place(spec, current)
            deployment = _insert(app, spec, env, placement.node.pk, actor)
            leases.take(deployment, placement.grants)
            for earlier in current:
                if earlier.state in COMING_UP:
                    transitions.mark_ending(
                        earlier,
                        State.SUPERSEDED,
                        code="superseded",
                        reason=f"Replaced by #{deployment.number}.",
                    )
            App.objects.filter(pk=app.pk).update(desired_state=App.DesiredState.RUNNING)
            record(actor, verb, app, workspace=app.workspace, after={"deployment": deployment.number})
            wake_after_commit(app.pk)
    except AppGone:
        raise
    except Refusal as refusal:
        # The transaction is gone with everything in it; that somebody tried is worth keeping.
        DeploymentEvent.objects.create(
            app_id=app.pk, code=refusal.code, message=refusal.detail, operator_detail=refusal.operator_detail
        )
        raise
    return deployment


def _insert(app: App, spec: Mapping[str, Any], env: Mapping[str, str], node_id: int, actor: Actor) -> Deployment:
    number = app.deployments.aggregate(last=Max("number"))["last"] or 0
    deployment = Deployment.objects.create(
        app=app,
        workspace_id=app.workspace_id,
        number=number + 1,
        spec=spec,
        env=env,
        gpu_units=spec["gpu"],
        cpu_millis=spec["cpu_millis"] or 0,
        memory_mib=spec["memory_mib"] or 0,
        node_id=node_id,
        requested_by=actor.name[:160],
    )
    transitions.note(deployment, state=State.QUEUED, message=f"Requested by {actor.name}.")
    return deployment


def _lock(app: App) -> App:
    """The app's row, locked after its workspace's, fresh, with workspace and plan at hand."""
    workspace = Workspace.objects.lock(app.workspace_id)
    locked = App.objects.select_for_update(no_key=True, of=("self",)).filter(pk=app.pk).first()
    if locked is None:
        raise AppGone(f"App {app.name} has been deleted.")
    locked.workspace = workspace
    return locked


def _end_live(app: App, reason: str) -> None:
    for deployment in app.deployments.live().order_by("number"):
        transitions.mark_ending(deployment, State.STOPPED, code="stopped", reason=reason)


def _last_of(app: App) -> Deployment:
    last = app.deployments.first()
    if last is None:
        raise NeverDeployed(f"App {app.name} was never deployed. Use deploy.")
    return last

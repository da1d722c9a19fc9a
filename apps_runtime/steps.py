"""What a worker does for one app: load, act, apply, one step after the other.

The app's claim keeps every other worker away, so deploying and stopping one app never
interleave. Each step finds out from the rows what is next, so a worker may be killed
anywhere: the next one goes on from the state it finds. Creating and removing are
idempotent by the container's name, which is derived from the attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from apps_runtime import bring_up, transitions, wind_down
from apps_runtime.claimed_app import ClaimedApp
from apps_runtime.faults import classify
from apps_runtime.models import App, Deployment, DeploymentQuerySet
from apps_runtime.states import COMING_UP, WITHOUT_CONTAINER, State
from apps_runtime.waking import wake
from engines.contract import EngineError
from gpus import claims
from gpus.claims import ClaimLost

log = structlog.get_logger(__name__)

LONGEST_RETRY_SECONDS = 60


def advance(app_id: int) -> None:
    """Do everything that is due for the app now; return when nothing is, or it is claimed.

    A wake-up that comes while another worker is just finishing finds the claim taken and
    is dropped, so after giving the claim back the rows are looked at once more.
    """
    while (token := claims.take(App, app_id)) is not None:
        claimed = ClaimedApp(app_id, token)
        try:
            with claims.renewing(App, app_id, token):
                progressed = _work(claimed)
        except ClaimLost:
            log.info("claim_lost", app=app_id)
            return
        finally:
            claims.release(App, app_id, token)
        if not progressed or not _due(app_id):
            return


def due_apps() -> Iterator[int]:
    """Ids of apps with work left that nobody is doing, oldest first."""
    deleted = Q(desired_state=App.DesiredState.DELETED)
    return (
        App.objects.filter(claims.free_now())
        .filter(deleted | Q(pk__in=_due_deployments().values("app_id")))
        .order_by("pk")
        .values_list("pk", flat=True)
        .iterator()
    )


def _due_deployments() -> DeploymentQuerySet:
    ready = Q(retry_at=None) | Q(retry_at__lte=timezone.now())
    unfinished = Q(state__in=sorted(COMING_UP | {State.STOPPING})) | ~Q(exit_to="")
    return Deployment.objects.live().filter(ready, unfinished)


def _due(app_id: int) -> bool:
    live = Deployment.objects.live().filter(app=OuterRef("pk"))
    gone = Q(desired_state=App.DesiredState.DELETED) & ~Exists(live)
    return App.objects.filter(gone | Exists(_due_deployments().filter(app=OuterRef("pk"))), pk=app_id).exists()


def _work(claimed: ClaimedApp) -> bool:
    """Do what is due, one deployment after the other; whether there was anything to do."""
    progressed = False
    while _step(claimed):
        progressed = True
    return progressed


def _step(claimed: ClaimedApp) -> bool:
    """Take one deployment as far as it goes; false when there is nothing to do now."""
    live = list(
        Deployment.objects.live()
        .filter(app_id=claimed.app_id)
        .select_related("node", "workspace__plan")
        .order_by("number")
    )
    if not live:
        return _delete_if_asked(claimed)
    now = timezone.now()
    ready = [each for each in live if each.retry_at is None or each.retry_at <= now]
    chosen = next((each for each in ready if each.exit_to), None)
    if chosen is None:
        chosen = next((each for each in ready if each.state in COMING_UP), None)
    if chosen is None:
        return False
    earlier = [each for each in live if each.number < chosen.number]
    if not chosen.exit_to and chosen.state not in WITHOUT_CONTAINER and earlier:
        # Its turn comes when the one before is gone, which is retried in its own time.
        return False
    loaded = {"state": chosen.state, "exit_to": chosen.exit_to}
    try:
        if chosen.exit_to:
            wind_down.finish(claimed, chosen)
        else:
            bring_up.bring_up(claimed, chosen, earlier)
    except EngineError as error:
        _take_fault(claimed, chosen, error)
    except (transitions.MovedElsewhere, bring_up.Abandoned):
        # A person decided otherwise between load and apply: look again.
        log.info("deployment_moved_elsewhere", deployment=chosen.pk)
        # Only if there is something else to see: the same again would be refused again, for ever.
        return not Deployment.objects.filter(pk=chosen.pk, **loaded).exists()
    return True


def _delete_if_asked(claimed: ClaimedApp) -> bool:
    """Whether the app was deleted; one whose volumes cannot be removed now is left to the sweep."""
    try:
        return wind_down.delete_if_asked(claimed)
    except EngineError as error:
        log.warning("volumes_not_removed", app=claimed.app_id, error=error.message)
        return False


def _take_fault(claimed: ClaimedApp, deployment: Deployment, error: EngineError) -> None:
    """Try again later, or decide that the deployment fails.

    What is ending is tried for ever: its leases must not end before its container does.
    """
    fault = classify(error, deployment.node.name, deployment.spec["image"])
    attempts = deployment.attempts + 1
    log.warning("engine_fault", deployment=deployment.pk, code=fault.code, error=error.message, attempts=attempts)
    again = bool(deployment.exit_to) or (fault.passing and attempts < settings.MIABI_MAX_ATTEMPTS)
    with claimed.applying():
        if not again:
            transitions.mark_ending(
                deployment,
                State.FAILED,
                code=fault.code,
                reason=fault.sentence,
                operator_detail=error.message,
                attempts=0,
            )
            return
        pause = min(2**attempts, LONGEST_RETRY_SECONDS)
        Deployment.objects.filter(pk=deployment.pk).update(
            attempts=attempts, retry_at=timezone.now() + timedelta(seconds=pause)
        )
        if attempts == 1:
            transitions.note(
                deployment,
                code=fault.code,
                message=f"{fault.sentence} Trying again.",
                operator_detail=error.message,
            )
    wake(claimed.app_id, after_s=pause)

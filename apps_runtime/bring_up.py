"""The steps from ``queued`` to ``running``, each: load, act on the engine, apply."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog
from django.conf import settings
from django.utils import timezone

from apps_runtime import transitions
from apps_runtime.claimed_app import ClaimedApp
from apps_runtime.images import registry_of
from apps_runtime.models import Deployment, Registry
from apps_runtime.specs import container_labels, container_spec, volume_name
from apps_runtime.states import COMING_UP, WITHOUT_CONTAINER, State
from apps_runtime.verification import INSIDE_COMMAND, Verdict, judge_inside, judge_record
from engines.contract import ContainerPhase, ContainerStatus, Engine, RegistryLogin, RequestRefused
from gpus.connections import engine_for
from gpus.models import installation_uid

log = structlog.get_logger(__name__)

CANCEL_LOOK_SECONDS = 2.0
# Shells' words for "cannot execute" and "not found": the check did not run, so it says nothing.
COULD_NOT_RUN = frozenset({126, 127})


class Abandoned(Exception):
    """The deployment is to end; the pull in progress is given up."""


def bring_up(claimed: ClaimedApp, deployment: Deployment, earlier: Sequence[Deployment]) -> None:
    """Take ``deployment`` as far as it goes now: to running, to its turn, or to a decision.

    ``earlier`` are the app's older live deployments: until they are gone it may not create
    its container. That it must end is noticed at each step, whose move is then refused.
    """
    engine = engine_for(deployment.node)
    while deployment.state in COMING_UP and not deployment.exit_to:
        if earlier and deployment.state not in WITHOUT_CONTAINER:
            return
        match State(deployment.state):
            case State.QUEUED | State.PLACING:
                _prepare(claimed, deployment, earlier, engine)
            case State.PULLING:
                _pull(claimed, deployment, earlier, engine)
            case State.CREATING | State.STARTING:
                _launch(claimed, deployment, engine)
            case _:
                _verify(claimed, deployment, engine)


def _prepare(claimed: ClaimedApp, deployment: Deployment, earlier: Sequence[Deployment], engine: Engine) -> None:
    present = engine.image_present(deployment.spec["image"]) and not _is_anothers(deployment)
    if present:
        claimed.began_creating.add(deployment.pk)
    with claimed.applying():
        if deployment.state == State.QUEUED:
            transitions.move(deployment, State.PLACING, message=_placed(deployment))
        if present:
            _begin_creating(deployment, earlier)
        else:
            transitions.move(deployment, State.PULLING, message=f"Pulling {deployment.spec['image']}.")


def _is_anothers(deployment: Deployment) -> bool:
    """Whether an image on the node may be there by another workspace's credentials only.

    Then it is pulled with this workspace's own, which the registry may refuse: to know a
    private image's name is no right to run it.
    """
    image = deployment.spec["image"]
    others = Registry.objects.filter(server=registry_of(image)).exclude(workspace_id=deployment.workspace_id)
    if not others.exists():
        return False
    own = Deployment.objects.filter(
        workspace_id=deployment.workspace_id, node_id=deployment.node_id, spec__image=image
    ).exclude(started_at=None)
    return not own.exists()


def _placed(deployment: Deployment) -> str:
    devices = f" with {deployment.gpu_units} GPU(s)" if deployment.gpu_units else ""
    return f"Placed on node {deployment.node.name}{devices}."


def _pull(claimed: ClaimedApp, deployment: Deployment, earlier: Sequence[Deployment], engine: Engine) -> None:
    looked = time.monotonic()

    def on_progress(_line: str) -> None:
        nonlocal looked
        if time.monotonic() - looked >= CANCEL_LOOK_SECONDS:
            looked = time.monotonic()
            if Deployment.objects.filter(pk=deployment.pk).exclude(exit_to="").exists():
                raise Abandoned

    engine.pull(
        deployment.spec["image"],
        login=_login(deployment),
        deadline_s=settings.MIABI_PULL_TIMEOUT_SECONDS,
        on_progress=on_progress,
    )
    claimed.began_creating.add(deployment.pk)
    with claimed.applying():
        _begin_creating(deployment, earlier)


def _login(deployment: Deployment) -> RegistryLogin | None:
    server = registry_of(deployment.spec["image"])
    registry = Registry.objects.filter(workspace_id=deployment.workspace_id, server=server).first()
    return RegistryLogin(registry.server, registry.username, registry.password) if registry else None


def _begin_creating(deployment: Deployment, earlier: Sequence[Deployment]) -> None:
    """Only now, with the image at hand, does what ran before have to make room."""
    for other in earlier:
        transitions.mark_ending(other, State.SUPERSEDED, code="superseded", reason=f"Replaced by #{deployment.number}.")
    transitions.move(deployment, State.CREATING)


def _launch(claimed: ClaimedApp, deployment: Deployment, engine: Engine) -> None:
    """Create and start. Both are written down together: a worker that dies in between leaves
    a container that is found by its name, and asked whether it was started already."""
    uuids = _granted(deployment)
    if len(uuids) != deployment.gpu_units:
        # Never start with other than what was granted, whatever went wrong before.
        _fail(
            claimed,
            deployment,
            "gpu_lease_lost",
            f"{deployment.gpu_units} device(s) were granted and {len(uuids)} are held. Deploy again.",
        )
        return
    installation = installation_uid()
    spec = container_spec(deployment, uuids, installation, deployment.workspace.limits)
    labels = container_labels(deployment, installation)
    for mount in deployment.spec["mounts"]:
        engine.ensure_volume(volume_name(deployment.spec["workspace"], mount["volume"]), labels)
    handle = engine.create(spec)
    created = timezone.now()
    # A job that has already run must not run twice.
    fresh = deployment.pk in claimed.began_creating
    if fresh or engine.inspect(handle).started_at is None:
        # Whoever took over meanwhile may have ended the leases: a hung worker starts nothing.
        claimed.ensure_held()
        engine.start(handle)
    with claimed.applying():
        if deployment.state == State.CREATING:
            transitions.move(deployment, State.STARTING, at=created)
        transitions.move(deployment, State.VERIFYING, engine_handle=handle)


def _granted(deployment: Deployment) -> list[str]:
    return list(deployment.leases.order_by("device__index", "pk").values_list("device__uuid", flat=True))


def _verify(claimed: ClaimedApp, deployment: Deployment, engine: Engine) -> None:
    uuids = _granted(deployment)
    status = engine.inspect(deployment.engine_handle)
    verdict = judge_record(status, uuids)
    unverified = ""
    if verdict.ok and uuids:
        verdict, unverified = _ask_inside(engine, status, uuids)
    if not verdict.ok:
        log.error("gpu_isolation_breach", deployment=deployment.pk, detail=verdict.operator_detail)
        _fail(
            claimed,
            deployment,
            "gpu_isolation_breach",
            f"{verdict.sentence} It was removed. Ask the operator to look at node {deployment.node.name}.",
            operator_detail=verdict.operator_detail,
            verification=Deployment.Verification.BREACH,
        )
        return
    status = engine.inspect(deployment.engine_handle) if unverified else status
    with claimed.applying():
        transitions.move(
            deployment,
            State.RUNNING,
            message=unverified,
            code="gpu_unverified" if unverified else "",
            host_ports={str(inner): outer for inner, outer in status.host_ports.items()},
            verification=Deployment.Verification.UNVERIFIED if unverified else Deployment.Verification.OK,
            verification_note=unverified,
        )
        note_end(deployment, status)


def _ask_inside(engine: Engine, status: ContainerStatus, uuids: Sequence[str]) -> tuple[Verdict, str]:
    """The verdict from inside, or why the inside could not be asked."""
    if status.phase is not ContainerPhase.RUNNING:
        return Verdict(True), "The process ended before its devices could be checked inside."
    try:
        answer = engine.execute(status.id, INSIDE_COMMAND)
    except RequestRefused:
        return Verdict(True), "The container could not be asked which devices it sees."
    if answer.exit_code in COULD_NOT_RUN:
        return Verdict(True), "The container has no nvidia-smi to ask which devices it sees."
    if answer.exit_code != 0 and engine.inspect(status.id).phase is not ContainerPhase.RUNNING:
        # The end of the container took the check with it, half its answer perhaps unsaid.
        return Verdict(True), "The process ended while its devices were being checked inside."
    return judge_inside(answer.output, uuids), ""


def note_end(deployment: Deployment, status: ContainerStatus) -> None:
    """Decide how a deployment ends whose process the engine says has ended."""
    if status.phase not in (ContainerPhase.EXITED, ContainerPhase.DEAD):
        return
    if status.exit_code == 0:
        transitions.mark_ending(
            deployment,
            State.STOPPED,
            code="completed",
            reason="The process ended with exit code 0.",
            exit_code=0,
        )
        return
    why = "was killed for using more memory than its limit" if status.oom_killed else "ended"
    transitions.mark_ending(
        deployment,
        State.FAILED,
        code="out_of_memory" if status.oom_killed else "container_exited",
        reason=f"The process {why} (exit code {status.exit_code}). Look at the logs, then deploy again.",
        operator_detail=status.error,
        exit_code=status.exit_code,
    )


def _fail(
    claimed: ClaimedApp,
    deployment: Deployment,
    code: str,
    reason: str,
    *,
    operator_detail: str = "",
    **changes: str,
) -> None:
    with claimed.applying():
        decided = transitions.mark_ending(
            deployment, State.FAILED, code=code, reason=reason, operator_detail=operator_detail, **changes
        )
        if not decided:
            # It was on its way to another end already; what was found is kept all the same.
            transitions.note(deployment, code=code, message=reason, operator_detail=operator_detail)
            if changes:
                Deployment.objects.filter(pk=deployment.pk).update(**changes)
    if not decided:
        raise transitions.MovedElsewhere(f"{deployment} is ending already")

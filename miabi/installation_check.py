"""What is configured, what is reachable and what is missing, as an operator needs to know it.

Nothing is changed and nothing is run: engines are asked who they are, at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from cryptography.fernet import InvalidToken
from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.utils import timezone

from engines.contract import EngineError
from gpus.connections import engine_for
from gpus.inventory import TOOLKIT_VERSION_LABEL
from gpus.models import Node
from gpus.preflight import Status as LightStatus
from gpus.preflight import examine
from miabi.health import broker_problem, database_problem, migrations_problem
from workspaces.encryption import EncryptedJSONField, cipher
from workspaces.models import User

AT_ONCE = 16
SHORT_SECRET = 50


class Status(StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``fix`` is empty when there is nothing to do."""

    part: str
    status: Status
    sentence: str
    fix: str = ""


def examine_installation() -> list[Finding]:
    """All findings. What needs the database is left out when it does not answer."""
    findings = [*_settings(), *_database(), *_broker()]
    if all(finding.status is not Status.PROBLEM for finding in findings if finding.part == "database"):
        findings += [*_keys(), *_people(), *_nodes()]
    return findings


def _settings() -> Iterator[Finding]:
    if settings.DEBUG:
        yield _problem("settings", "MIABI_DEBUG is on: errors show settings and code to anybody.", "Switch it off.")
    else:
        yield _ok("settings", "MIABI_DEBUG is off.")
    if "*" in settings.ALLOWED_HOSTS:
        yield _problem("settings", "MIABI_ALLOWED_HOSTS allows any host name.", "List the names people use.")
    else:
        yield _ok("settings", f"The web server answers for {', '.join(settings.ALLOWED_HOSTS)}.")
    if len(settings.SECRET_KEY) < SHORT_SECRET:
        yield _problem(
            "settings",
            f"MIABI_SECRET_KEY has fewer than {SHORT_SECRET} characters, so sessions could be forged.",
            "Set a long random one, or none: one is made then.",
        )
    if not settings.SESSION_COOKIE_SECURE:
        yield _note("settings", "Cookies travel over plain HTTP.", "Behind TLS set MIABI_HTTPS=true.")
    if not settings.MIABI_GPU_ENABLED:
        yield _note("settings", "GPUs are switched off: nothing is probed.", "Set MIABI_GPU_ENABLED=true.")
    if not settings.MIABI_PLAN_ENFORCEMENT:
        yield _note("settings", "Plans are not enforced (MIABI_PLAN_ENFORCEMENT): limits bind nobody.")
    if not settings.MIABI_METRICS_ENABLED:
        yield _note("settings", "There are no metrics (MIABI_METRICS_ENABLED).")


def _database() -> Iterator[Finding]:
    kind = connection.display_name
    if problem := database_problem():
        yield _problem("database", f"{kind} {problem}.", "Look at DATABASE_URL and at the server.")
        return
    yield _ok("database", f"{kind} {'.'.join(map(str, connection.get_database_version()))} answers.")
    try:
        problem = migrations_problem()
    except Error as error:
        problem = str(error)
    if problem:
        yield _problem("database", f"Migrations: {problem}.")
    for message in checks.run_checks(tags=[checks.Tags.database], databases=[DEFAULT_DB_ALIAS]):
        finding = _problem if message.level >= checks.ERROR else _note
        yield finding("database", message.msg, message.hint or "")
    if connection.vendor == "sqlite":
        yield _note("database", "SQLite serves one machine.", "For several, set DATABASE_URL to a PostgreSQL server.")


def _broker() -> Iterator[Finding]:
    kind = settings.CELERY_BROKER_URL.partition("://")[0]
    if problem := broker_problem():
        yield _problem("broker", f"The broker ({kind}) {problem}.", "Look at MIABI_BROKER_URL and at the server.")
    else:
        yield _ok("broker", f"The broker ({kind}) answers.")


def _keys() -> Iterator[Finding]:
    """The keys are Fernet keys, and open the oldest and the newest secret of each kind."""
    try:
        cipher()
    except ValueError:
        yield _problem(
            "keys",
            "MIABI_ENCRYPTION_KEYS holds something that is no key (32 bytes in URL-safe base64).",
            "Put the right keys back.",
        )
        return
    closed = list(_closed_secrets())
    for kind in closed:
        yield _problem(
            "keys",
            f"{kind} cannot be read with the keys that are configured.",
            "Add the key they were written with to MIABI_ENCRYPTION_KEYS, after the present one.",
        )
    if not closed:
        yield _ok("keys", f"{len(settings.MIABI_ENCRYPTION_KEYS)} encryption key(s) open what is stored.")


def _closed_secrets() -> Iterator[str]:
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if not isinstance(field, EncryptedJSONField):
                continue
            stored = model._default_manager.exclude(**{field.name: None}).values_list(field.name, flat=True)
            try:
                stored.order_by("pk").first()
                stored.order_by("-pk").first()
            except (InvalidToken, ValueError):
                yield f"{field.verbose_name.capitalize()} of {model._meta.verbose_name_plural}"


def _people() -> Iterator[Finding]:
    operators = User.objects.filter(is_staff=True, is_active=True).count()
    if operators:
        yield _ok("people", f"{operators} operator(s) can sign in.")
    else:
        yield _problem("people", "Nobody can sign in to the console.", "Run 'manage.py createsuperuser'.")


def _nodes() -> Iterator[Finding]:
    readable = []
    for pk, name in Node.objects.order_by("name").values_list("pk", "name"):
        try:
            readable.append(Node.objects.get(pk=pk))
        except InvalidToken:
            yield _problem(f"node {name}", "Its credentials cannot be read with the keys that are configured.")
    if not readable:
        yield _note("nodes", "No usable node is registered: nothing can be deployed.", "Add one in the console.")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for findings in pool.map(_node, readable):
            yield from findings


def _node(node: Node) -> list[Finding]:
    """Asks the engine. Runs in a thread and leaves the database alone."""
    part = f"node {node.name}"
    try:
        engine = engine_for(node)
        facts = engine.facts()
        image = node.probe_image or settings.MIABI_GPU_PROBE_IMAGE
        image_there = engine.image_present(image)
    except EngineError as error:
        return [_problem(part, f"The engine at {node.address} did not answer: {error.message}", "Start or mend it.")]
    preflight = examine(
        facts,
        runtime_name=settings.MIABI_NVIDIA_RUNTIME,
        attach_mode="cdi" if node.attach_mode == Node.AttachMode.CDI else "device_request",
        toolkit_version=str(node.labels.get(TOOLKIT_VERSION_LABEL, "")),
        toolkit_floor=settings.MIABI_TOOLKIT_FLOOR,
        now=timezone.now(),
    )
    # Without GPUs the NVIDIA side of a node is nobody's problem.
    bad = _problem if settings.MIABI_GPU_ENABLED else _note
    by_light: dict[LightStatus, Callable[..., Finding]] = {
        LightStatus.OK: _ok,
        LightStatus.WARN: _note,
        LightStatus.BAD: bad,
    }
    findings = [by_light[light.status](part, light.sentence, light.fix) for light in preflight.lights]
    if settings.MIABI_GPU_ENABLED and not image_there:
        findings.append(_note(part, f"The probe image {image} is not there yet.", "The first probe fetches it."))
    if node.last_probe_ok is False:
        findings.append(_note(part, f"The last probe failed: {node.last_probe_error}.", "See the node in the console."))
    return findings


def _ok(part: str, sentence: str, fix: str = "") -> Finding:
    return Finding(part, Status.OK, sentence, fix)


def _note(part: str, sentence: str, fix: str = "") -> Finding:
    return Finding(part, Status.NOTE, sentence, fix)


def _problem(part: str, sentence: str, fix: str = "") -> Finding:
    return Finding(part, Status.PROBLEM, sentence, fix)

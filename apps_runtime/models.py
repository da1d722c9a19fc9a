"""Apps, their deployments, and who holds which device."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps_runtime.states import LIVE, State
from gpus.claims import Claimable
from gpus.models import GpuDevice, Node
from workspaces.encryption import EncryptedJSONField
from workspaces.models import DNS_LABEL, User, Workspace

LIVE_STATES = sorted(LIVE)


class StateChoices(models.TextChoices):
    QUEUED = State.QUEUED.value, "Queued"
    PLACING = State.PLACING.value, "Placing"
    PULLING = State.PULLING.value, "Pulling image"
    CREATING = State.CREATING.value, "Creating"
    STARTING = State.STARTING.value, "Starting"
    VERIFYING = State.VERIFYING.value, "Verifying"
    RUNNING = State.RUNNING.value, "Running"
    STOPPING = State.STOPPING.value, "Stopping"
    STOPPED = State.STOPPED.value, "Stopped"
    FAILED = State.FAILED.value, "Failed"
    SUPERSEDED = State.SUPERSEDED.value, "Superseded"


class Volume(models.Model):
    """A named volume of a workspace; it lives on each node where an app of it has run."""

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="volumes")
    name = models.CharField(max_length=40, validators=[DNS_LABEL])
    labels = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="volume_name_once")]

    def __str__(self) -> str:
        return self.name


class Secret(models.Model):
    """Named secret values of a workspace (key -> value), encrypted, never returned."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=40, validators=[DNS_LABEL])
    data = EncryptedJSONField(default=dict)
    keys = models.JSONField(default=list, help_text="The names of the values, which are not secret.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="secret_name_once")]

    def __str__(self) -> str:
        return self.name


class Registry(models.Model):
    """Credentials for images of one registry server."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="registries")
    name = models.CharField(max_length=40, validators=[DNS_LABEL])
    server = models.CharField(max_length=255, help_text="Host and optional port, as in the image name.")
    username = models.CharField(max_length=255)
    password = EncryptedJSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "registries"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="registry_name_once"),
            models.UniqueConstraint(fields=["workspace", "server"], name="registry_server_once"),
        ]

    def __str__(self) -> str:
        return self.name


class App(Claimable):
    """What a tenant wants to run. Its claim is the worker's: all engine work of one app
    is done by one worker at a time, so a deploy and a stop of it never interleave."""

    class DesiredState(models.TextChoices):
        STOPPED = "stopped", "Stopped"
        RUNNING = "running", "Running"
        DELETED = "deleted", "Deleted"

    class Runtime(models.TextChoices):
        CONTAINER = "container", "Container"
        SERVICE = "service", "Service (replicas)"

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="apps")
    name = models.CharField(max_length=40, validators=[DNS_LABEL])
    labels = models.JSONField(default=dict, blank=True)
    image = models.CharField(max_length=512)
    tag = models.CharField(max_length=128, blank=True)
    digest = models.CharField(max_length=71, blank=True, help_text="sha256:…; wins over the tag.")
    command = models.JSONField(default=list, blank=True)
    env = EncryptedJSONField(default=dict, blank=True)
    secret_env = models.JSONField(default=list, blank=True, help_text="Names in env whose values are never returned.")
    secret_refs = models.JSONField(default=list, blank=True, help_text="Names of workspace secrets put into the env.")
    ports = models.JSONField(default=list, blank=True, help_text='[{"container": 8000, "publish": true}]')
    mounts = models.JSONField(default=list, blank=True, help_text='[{"volume": "models", "path": "/models"}]')
    health_command = models.JSONField(default=list, blank=True)
    cpu_millis = models.PositiveIntegerField(null=True, blank=True, help_text="Millicores; empty = no limit.")
    memory_mib = models.PositiveIntegerField(null=True, blank=True, help_text="MiB; empty = no limit.")
    gpu = models.PositiveSmallIntegerField(default=0, help_text="Whole devices.")
    gpu_kind = models.CharField(max_length=64, blank=True)
    gpu_capabilities = models.JSONField(default=list, blank=True)
    runtime = models.CharField(max_length=10, choices=Runtime, default=Runtime.CONTAINER)
    replicas = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    node = models.ForeignKey(Node, on_delete=models.PROTECT, null=True, blank=True, related_name="pinned_apps")
    desired_state = models.CharField(max_length=8, choices=DesiredState, default=DesiredState.STOPPED)
    purge = models.BooleanField(default=False, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="app_name_once")]
        indexes = [
            # The console's list over all workspaces, newest first.
            models.Index(fields=["-created_at"], name="app_newest"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def image_reference(self) -> str:
        """What the engine is asked for; a digest wins over a tag."""
        if self.digest:
            return f"{self.image}@{self.digest}"
        return f"{self.image}:{self.tag or 'latest'}"


class DeploymentQuerySet(models.QuerySet["Deployment"]):
    def live(self) -> DeploymentQuerySet:
        return self.filter(state__in=LIVE_STATES)


class Deployment(models.Model):
    """One attempt to run an app. ``spec`` and ``env`` never change after it is opened."""

    class Verification(models.TextChoices):
        PENDING = "pending", "Not checked yet"
        OK = "ok", "Sees exactly its devices"
        UNVERIFIED = "unverified", "Could not be asked"
        BREACH = "breach", "Saw other devices"

    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="deployments")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="deployments")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    env = EncryptedJSONField(default=dict)
    gpu_units = models.PositiveSmallIntegerField(default=0)
    cpu_millis = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="deployments")
    state = models.CharField(max_length=10, choices=StateChoices, default=StateChoices.QUEUED)
    exit_to = models.CharField(
        max_length=10, blank=True, help_text="Set when it must end: stopped, failed or superseded."
    )
    reason_code = models.CharField(max_length=60, blank=True)
    reason = models.TextField(blank=True, help_text="For the tenant.")
    operator_detail = models.TextField(blank=True, help_text="The engine's own words; operators only.")
    engine_handle = models.CharField(max_length=128, blank=True)
    host_ports = models.JSONField(default=dict, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    log_tail = models.TextField(blank=True, editable=False, help_text="The last lines, kept when the container went.")
    verification = models.CharField(max_length=10, choices=Verification, default=Verification.PENDING)
    verification_note = models.CharField(max_length=200, blank=True)
    attempts = models.PositiveIntegerField(default=0, help_text="Tries of the current step that did not work out.")
    retry_at = models.DateTimeField(null=True, blank=True)
    requested_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True, help_text="When it became running.")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = DeploymentQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["app", "number"], name="deployment_number_once")]
        indexes = [
            # Quota sums what a workspace's live deployments hold, at each deploy.
            models.Index(
                fields=["workspace"],
                include=["app", "gpu_units", "cpu_millis", "memory_mib"],
                condition=Q(state__in=LIVE_STATES),
                name="deployment_live_by_workspace",
            ),
            # Reconcile and drain ask for the live ones of a node; the sweep for all live ones.
            models.Index(fields=["node", "state"], condition=Q(state__in=LIVE_STATES), name="deployment_live_by_node"),
            # A workspace's history, newest first.
            models.Index(fields=["workspace", "-id"], name="deployment_by_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.app} #{self.number}"

    @property
    def container_name(self) -> str:
        """Derived from the attempt, so a second try finds the first one's container."""
        return f"miabi-{self.spec['workspace']}-{self.spec['name']}-{self.app_id}-{self.number}"


class DeploymentEvent(models.Model):
    """A line of an app's history: a state entered, or something worth knowing."""

    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="events")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, null=True, blank=True, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=StateChoices, blank=True)
    code = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    operator_detail = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["app", "-id"], name="event_by_app"),
        ]

    def __str__(self) -> str:
        return f"{self.state or self.code}: {self.message}"


class DeviceLease(models.Model):
    """``deployment`` holds ``slot`` of ``device`` now. The database refuses a double hold.

    A lease ends only when the engine has confirmed that the container is gone. A
    redeploy hands it over: ``successor`` gets it in the transaction in which the old
    container is known to be gone, so nobody else can slip in between.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="leases")
    device = models.ForeignKey(GpuDevice, on_delete=models.PROTECT, related_name="leases")
    slot = models.PositiveSmallIntegerField()
    successor = models.ForeignKey(
        Deployment, on_delete=models.SET_NULL, null=True, blank=True, related_name="inheritances"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["device", "slot"], name="lease_slot_once")]

    def __str__(self) -> str:
        return f"{self.deployment} on {self.device} slot {self.slot}"

"""Nodes and the cards in them: what was found, and what the operator decided about it."""

from __future__ import annotations

import uuid
from functools import cache

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Case, F, Q, Value, When

from gpus.claims import Claimable
from workspaces.encryption import EncryptedJSONField
from workspaces.models import DNS_LABEL

MAX_SHARES = 64


class Installation(models.Model):
    """One row: the identity this installation labels its containers with."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    uid = models.UUIDField(default=uuid.uuid4, editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="installation_is_one_row")]

    def __str__(self) -> str:
        return str(self.uid)


class Node(Claimable):
    """A place with an engine. Its claim is the probe's: one probe a node at a time."""

    class Engine(models.TextChoices):
        DOCKER = "docker", "Docker"
        VIRTUAL = "virtual", "Virtual (simulated cards)"

    class AttachMode(models.TextChoices):
        DEVICE_REQUEST = "device_request", "Device request (NVIDIA Container Toolkit hook)"
        CDI = "cdi", "CDI"

    class DrainState(models.TextChoices):
        NONE = "none", "Not draining"
        DRAINING = "draining", "Draining"
        DRAINED = "drained", "Drained"

    name = models.CharField(max_length=40, unique=True, validators=[DNS_LABEL])
    engine = models.CharField(max_length=12, choices=Engine, default=Engine.DOCKER)
    address = models.CharField(
        max_length=255,
        help_text="unix:///var/run/docker.sock, tcp://host:2375 or https://host:2376 with TLS.",
    )
    credentials = EncryptedJSONField(
        null=True,
        blank=True,
        help_text="TLS material (ca_cert, client_cert, client_key as PEM); encrypted, never shown.",
    )
    labels = models.JSONField(default=dict, blank=True)
    schedulable = models.BooleanField(default=True, help_text="Off = cordoned: nothing new is placed here.")
    drain_state = models.CharField(max_length=8, choices=DrainState, default=DrainState.NONE, editable=False)
    attach_mode = models.CharField(max_length=16, choices=AttachMode, default=AttachMode.DEVICE_REQUEST)
    probe_image = models.CharField(max_length=255, blank=True, help_text="Empty uses the fleet's probe image.")
    gpu_capable = models.BooleanField(
        default=False, editable=False, help_text="The last probe could hand cards to a container."
    )
    facts = models.JSONField(default=dict, blank=True, editable=False)
    last_probe_at = models.DateTimeField(null=True, editable=False)
    last_probe_ok = models.BooleanField(null=True, editable=False)
    last_probe_error = models.CharField(max_length=40, blank=True, editable=False, help_text="Failure code.")
    last_probe_detail = models.TextField(blank=True, editable=False)
    last_good_probe_at = models.DateTimeField(null=True, editable=False)
    probe_failures = models.PositiveIntegerField(default=0, editable=False, help_text="In a row.")
    probe_requested_at = models.DateTimeField(null=True, editable=False)
    reachable = models.BooleanField(null=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def inventory_stale(self) -> bool:
        """Whether the device list is older than the last attempt to read it."""
        return self.last_probe_ok is False


class GpuDeviceQuerySet(models.QuerySet["GpuDevice"]):
    def offered(self) -> GpuDeviceQuerySet:
        """Devices that may be handed out at all, free or not.

        A card with MIG on is not itself offered: its instances are.
        """
        return self.filter(
            enabled=True, presence=GpuDevice.Presence.PRESENT, health=GpuDevice.Health.OK, mig_enabled=False
        )

    def free(self) -> GpuDeviceQuerySet:
        """Offered devices with a free slot; served by the partial index ``gpu_free``."""
        return self.offered().filter(free_slots__gt=0)


class GpuDevice(models.Model):
    """One card, or one MIG instance of a card (then ``parent`` is set).

    ``uuid`` is the key. Index, minor number and PCI address are display data: they move
    at reboots. Rows are never deleted by a probe.
    """

    class Mode(models.TextChoices):
        DEDICATED = "dedicated", "Dedicated: one container"
        SHARED = "shared", "Shared: no memory or fault isolation between its containers"

    class Presence(models.TextChoices):
        PRESENT = "present", "Present"
        MISSING = "missing", "Missing"
        UNREADABLE = "unreadable", "Unreadable"

    class Health(models.TextChoices):
        OK = "ok", "OK"
        UNHEALTHY = "unhealthy", "Unhealthy"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    uuid = models.CharField("UUID", max_length=80)
    vendor = models.CharField(max_length=12, default="nvidia")
    model = models.CharField(max_length=120)
    memory_mib = models.PositiveIntegerField("memory (MiB)", null=True, blank=True, help_text="Empty = unknown.")
    memory_note = models.CharField(max_length=60, blank=True)
    index = models.PositiveIntegerField(null=True, blank=True)
    minor_number = models.PositiveIntegerField(null=True, blank=True)
    pci_bus_id = models.CharField("PCI bus id", max_length=32, blank=True)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="instances")
    mig_enabled = models.BooleanField("MIG on", default=False)
    mig_profile = models.CharField("MIG profile", max_length=40, blank=True)
    enabled = models.BooleanField(default=False, help_text="Only enabled devices are handed out.")
    mode = models.CharField(max_length=9, choices=Mode, default=Mode.DEDICATED)
    max_shares = models.IntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_SHARES)],
        help_text="Containers that may use a shared device at once.",
    )
    held = models.IntegerField(
        default=0, editable=False, help_text="Live leases, kept in step with them in the same transaction."
    )
    free_slots = models.GeneratedField(
        expression=Case(When(mode="dedicated", then=Value(1)), default=F("max_shares")) - F("held"),
        output_field=models.IntegerField(),
        db_persist=True,
    )
    presence = models.CharField(max_length=10, choices=Presence, default=Presence.PRESENT)
    health = models.CharField(max_length=9, choices=Health, default=Health.OK)
    health_reason = models.CharField(max_length=200, blank=True)
    utilization_percent = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    memory_used_mib = models.PositiveIntegerField(null=True, blank=True, editable=False)
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = GpuDeviceQuerySet.as_manager()

    class Meta:
        ordering = ["node", "index", "id"]
        verbose_name = "GPU device"
        constraints = [
            models.UniqueConstraint(fields=["node", "uuid"], name="device_uuid_once_per_node"),
            models.CheckConstraint(condition=Q(max_shares__gte=1, max_shares__lte=MAX_SHARES), name="device_shares"),
            # The database itself refuses to count more holders than there are slots.
            models.CheckConstraint(
                condition=Q(held__gte=0)
                & (Q(mode="dedicated", held__lte=1) | Q(mode="shared", held__lte=F("max_shares"))),
                name="device_held_within_slots",
            ),
        ]
        indexes = [
            # Placement asks "which nodes have free devices of these models": only free,
            # offered devices are in this index, so a full fleet of any size stays small.
            models.Index(
                fields=["node", "vendor", "model"],
                include=["free_slots", "held"],
                condition=Q(enabled=True, presence="present", health="ok", mig_enabled=False, free_slots__gt=0),
                name="gpu_free",
            ),
            # A duplicate UUID on another node is looked for at each merge and each enable.
            models.Index(fields=["uuid"], name="gpu_uuid"),
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.uuid}"

    @property
    def slots(self) -> int:
        return 1 if self.mode == self.Mode.DEDICATED else self.max_shares

    @property
    def offered(self) -> bool:
        return (
            self.enabled
            and self.presence == self.Presence.PRESENT
            and self.health == self.Health.OK
            and not self.mig_enabled
        )


@cache
def installation_uid() -> uuid.UUID:
    """This installation's identity, made at first use. It never changes, so a process asks once."""
    return Installation.objects.get_or_create(pk=1)[0].uid

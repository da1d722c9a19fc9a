"""Workspaces, the people in them, their tokens, and what everybody did."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from plans.limits import Limits, Overrides, SecurityProfile, effective
from plans.models import Plan, SecurityProfileChoices
from workspaces.roles import Role

DNS_LABEL = RegexValidator(
    r"\A[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\Z",
    "Use 1-40 lowercase letters, digits and hyphens, starting and ending with a letter or digit.",
)
INHERIT_HELP = "Empty inherits the plan's value; 0 = none, -1 = unlimited."


class User(AbstractUser):
    """A person. ``is_staff`` makes an operator; everybody else lives in workspaces."""


class WorkspaceQuerySet(models.QuerySet["Workspace"]):
    def lock(self, pk: int) -> Workspace:
        """The workspace with its plan, its row locked until the transaction ends.

        First in the lock order: workspace, app, node, devices by id.
        """
        return self.select_related("plan").select_for_update(no_key=True, of=("self",)).get(pk=pk)

    def visible_to(self, user: User) -> WorkspaceQuerySet:
        """Those ``user`` is a member of."""
        return self.filter(memberships__user=user)


class Workspace(models.Model):
    slug = models.CharField(max_length=40, unique=True, validators=[DNS_LABEL])
    name = models.CharField(max_length=80, blank=True)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="workspaces")
    suspended = models.BooleanField(
        default=False, help_text="A suspended workspace may read and stop, but start nothing."
    )
    gpu_allowed = models.BooleanField("GPUs allowed", null=True, blank=True, help_text="Empty inherits the plan's.")
    gpu_limit = models.IntegerField(
        "GPU limit", null=True, blank=True, validators=[MinValueValidator(-1)], help_text=INHERIT_HELP
    )
    cpu_limit = models.IntegerField(
        "CPU limit (millicores)",
        null=True,
        blank=True,
        validators=[MinValueValidator(-1)],
        help_text=INHERIT_HELP,
    )
    memory_limit = models.IntegerField(
        "Memory limit (MiB)",
        null=True,
        blank=True,
        validators=[MinValueValidator(-1)],
        help_text=INHERIT_HELP,
    )
    app_limit = models.IntegerField(null=True, blank=True, validators=[MinValueValidator(-1)], help_text=INHERIT_HELP)
    security_profile = models.CharField(
        max_length=12, choices=SecurityProfileChoices, blank=True, help_text="Empty inherits the plan's."
    )
    max_lease_hours = models.IntegerField(
        null=True, blank=True, validators=[MinValueValidator(-1)], help_text=INHERIT_HELP
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug

    @property
    def overrides(self) -> Overrides:
        return Overrides(
            gpu_allowed=self.gpu_allowed,
            gpu_limit=self.gpu_limit,
            cpu_limit=self.cpu_limit,
            memory_limit=self.memory_limit,
            app_limit=self.app_limit,
            security_profile=SecurityProfile(self.security_profile) if self.security_profile else None,
            max_lease_hours=self.max_lease_hours,
        )

    @property
    def limits(self) -> Limits:
        """The effective limits: plan, overridden by this workspace, platform force on top."""
        return effective(self.plan.limits, self.overrides, force_restricted=settings.MIABI_FORCE_RESTRICTED)


class RoleChoices(models.TextChoices):
    VIEWER = Role.VIEWER.value, "Viewer"
    DEVELOPER = Role.DEVELOPER.value, "Developer"
    ADMIN = Role.ADMIN.value, "Admin"
    OWNER = Role.OWNER.value, "Owner"


class Membership(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=RoleChoices, default=RoleChoices.VIEWER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["workspace", "user"]
        constraints = [models.UniqueConstraint(fields=["workspace", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace} as {self.role}"


class ApiToken(models.Model):
    """A bearer token, of which only the SHA-256 is kept.

    It acts for its ``user`` inside one workspace, with that user's role of the moment;
    without a workspace it is an operator's token and works only while the user is staff.
    """

    class Scope(models.TextChoices):
        READ = "read", "Read"
        WRITE = "write", "Read and write"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, null=True, blank=True, related_name="tokens")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=60)
    prefix = models.CharField(max_length=16, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.READ)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(revoked_at=None),
                name="token_name_once_per_workspace",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def usable(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())


class AuditEvent(models.Model):
    """Who changed what, before and after. Append-only: rows are never updated."""

    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    actor_name = models.CharField(
        max_length=160, help_text="Kept when the user is deleted; may name a token or a task."
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.SET_NULL, null=True, blank=True)
    verb = models.CharField(max_length=60)
    target_type = models.CharField(max_length=40)
    target_id = models.CharField(max_length=40, blank=True)
    target_name = models.CharField(max_length=160, blank=True)
    before = models.JSONField(default=dict, blank=True)
    after = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            # A workspace's own trail, newest first.
            models.Index(fields=["workspace", "-id"], name="audit_by_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.verb} {self.target_name}"

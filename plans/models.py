"""Plans: what a workspace on them may do and hold."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from plans.limits import Limits, SecurityProfile

LIMIT_HELP = "0 = none, -1 = unlimited."


class SecurityProfileChoices(models.TextChoices):
    DEFAULT = SecurityProfile.DEFAULT.value, "Default: the image's own user"
    RESTRICTED = SecurityProfile.RESTRICTED.value, "Restricted: fixed non-root user, no GPUs"


class Plan(models.Model):
    name = models.CharField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    gpu_allowed = models.BooleanField("GPUs allowed", default=False)
    gpu_limit = models.IntegerField(
        "GPU limit",
        default=0,
        validators=[MinValueValidator(-1)],
        help_text=f"Units held at once. {LIMIT_HELP}",
    )
    cpu_limit = models.IntegerField(
        "CPU limit (millicores)", default=-1, validators=[MinValueValidator(-1)], help_text=LIMIT_HELP
    )
    memory_limit = models.IntegerField(
        "Memory limit (MiB)", default=-1, validators=[MinValueValidator(-1)], help_text=LIMIT_HELP
    )
    app_limit = models.IntegerField(default=-1, validators=[MinValueValidator(-1)], help_text=LIMIT_HELP)
    security_profile = models.CharField(
        max_length=12, choices=SecurityProfileChoices, default=SecurityProfileChoices.DEFAULT
    )
    max_lease_hours = models.IntegerField(
        default=-1,
        validators=[MinValueValidator(-1)],
        help_text="Longest time an app may hold GPUs. -1 = unlimited.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(gpu_limit__gte=-1)
                & Q(cpu_limit__gte=-1)
                & Q(memory_limit__gte=-1)
                & Q(app_limit__gte=-1)
                & Q(max_lease_hours__gte=-1),
                name="plan_limits_from_minus_one",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def limits(self) -> Limits:
        return Limits(
            gpu_allowed=self.gpu_allowed,
            gpu_limit=self.gpu_limit,
            cpu_limit=self.cpu_limit,
            memory_limit=self.memory_limit,
            app_limit=self.app_limit,
            security_profile=SecurityProfile(self.security_profile),
            max_lease_hours=self.max_lease_hours,
        )

"""Operators' changes to plans, each with its trace."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from plans.models import Plan
from refusals import Conflict
from workspaces.audit import Actor, record


class PlanExists(Conflict):
    code = "plan_exists"


class PlanInUse(Conflict):
    code = "plan_in_use"


def create_plan(fields: dict[str, Any], *, actor: Actor) -> Plan:
    """Raises PlanExists."""
    try:
        with transaction.atomic():
            plan = Plan.objects.create(**fields)
            record(actor, "plan.create", plan, after=fields)
    except IntegrityError as error:
        raise PlanExists(
            f"There is a plan called {fields['name']} already. Choose another name.", attr="name"
        ) from error
    return plan


def change_plan(plan: Plan, fields: dict[str, Any], *, actor: Actor) -> Plan:
    """Change a plan; lower limits bind the next deploy or start. Raises PlanExists."""
    try:
        with transaction.atomic():
            locked = Plan.objects.select_for_update(no_key=True).get(pk=plan.pk)
            before = {name: getattr(locked, name) for name in fields if getattr(locked, name) != fields[name]}
            for name in before:
                setattr(locked, name, fields[name])
            if before:
                locked.save(update_fields=[*before, "updated_at"])
                record(actor, "plan.change", locked, before=before, after={name: fields[name] for name in before})
    except IntegrityError as error:
        raise PlanExists(
            f"There is a plan called {fields['name']} already. Choose another name.", attr="name"
        ) from error
    return locked


def delete_plan(plan: Plan, *, actor: Actor) -> None:
    """Raises PlanInUse while workspaces are on it."""
    try:
        with transaction.atomic():
            record(actor, "plan.delete", plan)
            plan.delete()
    except ProtectedError as error:
        raise PlanInUse(
            f"{len(error.protected_objects)} workspace(s) are on plan {plan.name}. Move them to another plan first."
        ) from error

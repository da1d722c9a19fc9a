"""Apps with how they are doing, in a constant number of queries."""

from __future__ import annotations

from django.db.models import OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce

from apps_runtime.models import App, Deployment
from workspaces.models import Workspace


def apps_with_state(workspace: Workspace | None = None) -> QuerySet[App]:
    """Apps annotated with the state, reason and number of their latest deployment."""
    latest = Deployment.objects.filter(app=OuterRef("pk")).order_by("-number")
    apps = App.objects.select_related("node", "workspace")
    if workspace is not None:
        apps = apps.filter(workspace=workspace)
    return apps.annotate(
        state=Coalesce(Subquery(latest.values("state")[:1]), Value("new"), output_field=TextField()),
        reason_code=Coalesce(Subquery(latest.values("reason_code")[:1]), Value(""), output_field=TextField()),
        reason=Coalesce(Subquery(latest.values("reason")[:1]), Value(""), output_field=TextField()),
        latest=Subquery(latest.values("number")[:1]),
        running_node=Subquery(latest.values("node__name")[:1]),
    ).order_by("name")

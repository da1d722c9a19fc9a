"""The tenant's pages of apps. Each view calls one service and renders."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps_runtime import declaring, lifecycle, manifest
from apps_runtime.app_list import apps_with_state
from apps_runtime.capabilities import may_ask_for_gpus
from apps_runtime.declaring import kinds_for_tenants
from apps_runtime.fitting import fit_of
from apps_runtime.forms import AppForm
from apps_runtime.logs import LogsUnavailable, read_logs
from apps_runtime.models import App, Deployment
from apps_runtime.pages_scope import Scope, page_of
from apps_runtime.serializers import AppSerializer
from apps_runtime.specs import spec_of
from apps_runtime.states import COMING_UP, State
from apps_runtime.timeline import timeline_of
from refusals import Refusal
from workspaces.models import User, Workspace
from workspaces.roles import Role

PAGE_SIZE = 25
VERBS = {
    "deploy": lifecycle.request_deploy,
    "start": lifecycle.request_start,
    "restart": lifecycle.request_restart,
    "stop": lifecycle.request_stop,
}


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponseBase:
    """Operators to the console; people of one workspace to it; others choose."""
    user = cast(User, request.user)
    if user.is_staff:
        return redirect("admin:index")
    workspaces = list(Workspace.objects.visible_to(user).order_by("slug")[:200])
    if len(workspaces) == 1:
        return redirect("pages:apps", workspaces[0].slug)
    return render(request, "pages/workspaces.html", {"workspaces": workspaces})


@require_GET
@page_of()
def apps(request: HttpRequest, scope: Scope) -> HttpResponse:
    """Apps with state, GPUs, node and age; searched and filtered."""
    rows: QuerySet[Any] = apps_with_state(scope.workspace)
    wanted, state = request.GET.get("q", "").strip()[:40], request.GET.get("state", "")
    if wanted:
        rows = rows.filter(name__icontains=wanted)
    if state in [*State, "new"]:
        rows = rows.filter(state=state)
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = scope.context("apps") | {"page": page, "q": wanted, "state": state, "states": ["new", *State]}
    return render(request, "pages/apps.html", context)


@require_http_methods(["GET", "POST"])
@page_of(Role.DEVELOPER)
def app_new(request: HttpRequest, scope: Scope) -> HttpResponseBase:
    """Declare an app."""
    form = _form(request, scope, None)
    if request.method == "POST" and form.is_valid():
        try:
            declared = form.cleaned_data["declared"]
            app = declaring.create_app(scope.workspace, form.cleaned_data["name"], declared, actor=scope.actor)
            return redirect("pages:app", scope.workspace.slug, app.name)
        except Refusal as refusal:
            form.show_refusal(refusal)
    return render(request, "pages/app_form.html", scope.context("apps") | {"form": form, "app": None})


@require_http_methods(["GET", "POST"])
@page_of(Role.DEVELOPER)
def app_edit(request: HttpRequest, scope: Scope, name: str) -> HttpResponseBase:
    """Change what is declared; what runs is not touched until the next deploy."""
    app = _app(scope, name)
    form = _form(request, scope, app)
    if request.method == "POST" and form.is_valid():
        try:
            declaring.update_app(app, form.cleaned_data["declared"], actor=scope.actor)
            return redirect("pages:app", scope.workspace.slug, app.name)
        except Refusal as refusal:
            form.show_refusal(refusal)
    return render(request, "pages/app_form.html", scope.context("apps") | {"form": form, "app": app})


@require_POST
@page_of(Role.DEVELOPER)
def fit(request: HttpRequest, scope: Scope, name: str = "") -> HttpResponse:
    """A line under the form: does it fit now, and if not, why."""
    app = App.objects.filter(workspace=scope.workspace, name=name).first() if name else None
    form = _form(request, scope, app)
    answer = None
    if form.is_valid():
        draft = app or App(name=form.cleaned_data["name"])
        draft.workspace = scope.workspace
        for field, value in form.cleaned_data["declared"].items():
            setattr(draft, field, value)
        answer = fit_of(scope.workspace, draft, spec_of(draft))
    return render(request, "pages/_fit.html", {"fit": answer})


@require_GET
@page_of()
def app_page(request: HttpRequest, scope: Scope, name: str) -> HttpResponse:
    """One app: state, timeline, devices, logs, settings, manifest, events."""
    app = _app(scope, name)
    declared = AppSerializer(app).data
    context = (
        scope.context("apps")
        | _condition(app)
        | {
            "declared": declared,
            "manifest": manifest.render(app.name, app.labels, declared),
            "events": app.events.select_related("deployment").order_by("-id")[:30],
            "attempts": app.deployments.select_related("node").order_by("-number")[:10],
        }
    )
    return render(request, "pages/app.html", context)


@require_GET
@page_of()
def app_state(request: HttpRequest, scope: Scope, name: str) -> HttpResponse:
    """The part of the app's page that moves; it asks again for as long as work runs."""
    app = App.objects.filter(workspace=scope.workspace, name=name).first()
    if app is None:
        # Deleted while it was looked at: to the list, which says so by not having it.
        return HttpResponse(headers={"HX-Redirect": reverse("pages:apps", args=[scope.workspace.slug])})
    return render(request, "pages/_state.html", scope.context("apps") | _condition(app))


@require_GET
@page_of()
def app_logs(request: HttpRequest, scope: Scope, name: str) -> HttpResponse:
    """The last lines of the latest deployment."""
    deployment = _app(scope, name).deployments.select_related("node").first()
    text, problem = "", ""
    if deployment is not None:
        try:
            text = b"".join(read_logs(deployment, tail=300)).decode("utf-8", "replace")
        except LogsUnavailable as refusal:
            problem = refusal.detail
    return render(request, "pages/_logs.html", {"text": text, "problem": problem, "deployment": deployment})


@require_POST
@page_of(Role.DEVELOPER)
def app_do(request: HttpRequest, scope: Scope, name: str, verb: str) -> HttpResponseBase:
    """Deploy, start, restart, stop."""
    VERBS[verb](_app(scope, name), actor=scope.actor)
    return redirect("pages:app", scope.workspace.slug, name)


@require_POST
@page_of(Role.DEVELOPER)
def app_delete(request: HttpRequest, scope: Scope, name: str) -> HttpResponseBase:
    """Stop and delete; it is gone once its container is."""
    lifecycle.request_delete(_app(scope, name), actor=scope.actor, purge="purge" in request.POST)
    return redirect("pages:apps", scope.workspace.slug)


def _app(scope: Scope, name: str) -> App:
    return get_object_or_404(
        App.objects.select_related("workspace__plan", "node"), workspace=scope.workspace, name=name
    )


def _form(request: HttpRequest, scope: Scope, app: App | None) -> AppForm:
    kinds = kinds_for_tenants() if may_ask_for_gpus(scope.workspace) else None
    return AppForm(request.POST if request.method == "POST" else None, kinds=kinds, app=app)


def _condition(app: App) -> dict[str, Any]:
    """The latest attempt with its way so far, and what may be asked of the app now."""
    deployment = app.deployments.select_related("node").prefetch_related("leases__device").first()
    busy = deployment is not None and (deployment.state in COMING_UP | {State.STOPPING} or bool(deployment.exit_to))
    ended = deployment is not None and deployment.ended_at is not None
    return {
        "app": app,
        "deployment": deployment,
        "steps": timeline_of(deployment) if deployment else [],
        "moving": (busy and not ended) or app.desired_state == App.DesiredState.DELETED,
        "actions": _actions(app, deployment),
        "devices": [lease.device for lease in deployment.leases.all()] if deployment else [],
    }


def _actions(app: App, deployment: Deployment | None) -> list[str]:
    """Only what makes sense now; the services decide all the same."""
    if app.desired_state == App.DesiredState.DELETED:
        return []
    if deployment is None:
        return ["deploy"]
    if deployment.ended_at is not None:
        return ["start", "deploy"]
    return ["deploy", "restart", "stop"] if deployment.state == State.RUNNING else ["stop"]

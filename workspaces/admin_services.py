"""What admin classes share: they call services, and show a refusal as a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django import forms
from django.contrib import messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.admin import ModelAdmin

from refusals import Refusal
from workspaces.audit import Actor
from workspaces.models import User

M = TypeVar("M", bound=models.Model)

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin
else:

    class _ModelAdmin(ModelAdmin):
        """unfold's class, which may be written with its model for the type checker."""

        def __class_getitem__(cls, model: object) -> type:
            return cls


def actor_of(request: HttpRequest) -> Actor:
    return Actor.person(cast(User, request.user))


def changed_fields(form: forms.BaseForm) -> dict[str, Any]:
    """What the person changed in the form, by field name."""
    return {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}


class ForEach:
    """Bulk actions that go through the same services as single ones."""

    def for_each(self, request: HttpRequest, rows: Iterable[M], act: Callable[[M], object], done: str) -> None:
        """Run a service for each chosen row; say how many it did, and each refusal."""
        count = 0
        for row in rows:
            try:
                act(row)
                count += 1
            except Refusal as refusal:
                messages.error(request, refusal.detail)
        if count:
            messages.success(request, done.format(count=count))


class ServiceAdmin(ForEach, _ModelAdmin[M]):
    """An admin class whose saves and deletes go through services.

    A refusal of theirs becomes a message with its sentence; the person is back at the form.
    """

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except Refusal as refusal:
            messages.error(request, refusal.detail)
            return HttpResponseRedirect(request.get_full_path())

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except Refusal as refusal:
            messages.error(request, refusal.detail)
            return HttpResponseRedirect(request.get_full_path().removesuffix("delete/") + "change/")


class ReadOnlyAdmin(ForEach, _ModelAdmin[M]):
    """Rows to look at: they change by services only."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

"""The form of an app: people's spelling of what the API takes. Its rules are the API's own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from django import forms

from apps_runtime.models import App
from apps_runtime.quantities import format_cpu, format_memory
from apps_runtime.serializers import AppSerializer
from refusals import Refusal

CPU_ONLY = "cpu"
GPU = "gpu"
# Where an error of the API's field is shown in the form.
_SHOWN_AT = {"secret_env": "secrets", "gpu_capabilities": "gpu", "runtime": "gpu"}


class AppForm(forms.Form):
    name = forms.CharField(max_length=40, help_text="1-40 lowercase letters, digits and hyphens.")
    image = forms.CharField(max_length=255, help_text="For example nvidia/cuda or registry.example.com/team/image.")
    tag = forms.CharField(max_length=128, required=False, help_text="Empty is latest.")
    command = forms.CharField(required=False, max_length=4096, help_text="As in a shell; empty is the image's own.")
    accelerator = forms.ChoiceField(choices=[(CPU_ONLY, "CPU only"), (GPU, "GPUs")], initial=CPU_ONLY)
    gpu = forms.IntegerField(label="GPUs", required=False, min_value=1, max_value=64, initial=1)
    gpu_kind = forms.ChoiceField(label="Kind", required=False)
    cpu = forms.CharField(label="CPU", required=False, help_text="Cores or millicores: 2, 500m.")
    memory = forms.CharField(required=False, help_text="For example 512Mi or 16Gi.")
    env = forms.CharField(
        label="Environment", required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="One KEY=value a line."
    )
    secrets = forms.CharField(
        label="Secret environment",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
        help_text="One KEY=value a line. Stored encrypted, never shown again; KEY= keeps what is stored.",
    )
    ports = forms.CharField(required=False, help_text="Published container ports: 8000, 9000.")
    mounts = forms.CharField(
        label="Volumes", required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="One volume:/path a line."
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, kinds: list[str] | None, app: App | None = None
    ) -> None:
        """``kinds`` None: this workspace may not ask for GPUs, so the controls are not there."""
        super().__init__(data, initial=_initial(app) if app else None)
        self.app = app
        if app is not None:
            self.fields["name"].disabled = True
        if kinds is None:
            for name in ("gpu", "gpu_kind"):
                del self.fields[name]
            self.fields["accelerator"] = forms.ChoiceField(choices=[(CPU_ONLY, "CPU only")])
        else:
            current = app.gpu_kind if app else ""
            offered = kinds + ([current] if current and current not in kinds else [])
            self.fields["gpu_kind"] = forms.ChoiceField(
                label="Kind", required=False, choices=[("", "Any"), *((kind, kind) for kind in offered)]
            )

    def clean(self) -> dict[str, Any]:
        """The API's own check; its errors stand beside the form's fields."""
        data = super().clean() or {}
        try:
            serializer = AppSerializer(data=self._as_api(data))
        except ValueError as error:
            self.add_error("command", str(error))
            return data
        if not serializer.is_valid():
            for name, problems in serializer.errors.items():
                self._show(name, _flat(problems))
            return data
        data["declared"] = {name: value for name, value in serializer.validated_data.items() if name != "name"}
        return data

    def show_refusal(self, refusal: Refusal) -> None:
        """A refusal's sentence beside the field it concerns, else on top."""
        self._show((refusal.attr or "").split(".", 1)[0], refusal.detail)

    def _show(self, api_field: str, sentence: str) -> None:
        name = _SHOWN_AT.get(api_field, api_field)
        self.add_error(name if name in self.fields else None, sentence)

    def _as_api(self, data: dict[str, Any]) -> dict[str, Any]:
        plain, secret = _pairs(data.get("env", "")), _pairs(data.get("secrets", ""))
        asked = data.get("accelerator") == GPU
        return {
            "name": self.app.name if self.app else data.get("name", ""),
            "image": data.get("image", ""),
            "tag": data.get("tag", ""),
            "command": shlex.split(data.get("command", "")),
            "env": {**plain, **{key: value or None for key, value in secret.items()}},
            "secret_env": sorted(secret),
            "ports": [{"container": part, "publish": True} for part in data.get("ports", "").replace(",", " ").split()],
            "mounts": [
                dict(zip(("volume", "path"), line.split(":", 1), strict=False))
                for line in data.get("mounts", "").split()
            ],
            "cpu": data.get("cpu") or None,
            "memory": data.get("memory") or None,
            "gpu": (data.get("gpu") or 1) if asked else 0,
            "gpu_kind": data.get("gpu_kind", "") if asked else "",
        }


def _initial(app: App) -> dict[str, Any]:
    return {
        "name": app.name,
        "image": app.image,
        "tag": app.tag,
        "command": shlex.join(app.command),
        "accelerator": GPU if app.gpu else CPU_ONLY,
        "gpu": app.gpu or 1,
        "gpu_kind": app.gpu_kind,
        "cpu": format_cpu(app.cpu_millis) if app.cpu_millis else "",
        "memory": format_memory(app.memory_mib) if app.memory_mib else "",
        "env": "\n".join(f"{key}={value}" for key, value in app.env.items() if key not in app.secret_env),
        "secrets": "\n".join(f"{key}=" for key in app.secret_env),
        "ports": ", ".join(str(port["container"]) for port in app.ports),
        "mounts": "\n".join(f"{mount['volume']}:{mount['path']}" for mount in app.mounts),
    }


def _pairs(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line.strip())
    return {key.strip(): value for key, _, value in (line.partition("=") for line in lines)}


def _flat(problems: Any) -> str:
    if isinstance(problems, dict):
        return " ".join(_flat(problem) for problem in problems.values())
    if isinstance(problems, list):
        return " ".join(_flat(problem) for problem in problems if problem)
    return str(problems)

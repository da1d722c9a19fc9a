"""The immutable spec of a deployment, and the container it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps_runtime.gates import Ask
from apps_runtime.models import App, Deployment, Secret
from engines.contract import ContainerSpec, GpuAttachment, HealthCheck, PortMapping, VolumeMount
from plans.limits import Limits, SecurityProfile

LABEL_PREFIX = "io.miabi."
# What an image that is not written for a locked-down engine still needs to start as root,
# change to its own user and bind low ports. Everything else of the engine's default set is dropped.
ALLOWED_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
RESTRICTED_USER = "65532:0"


def spec_of(app: App) -> dict[str, Any]:
    """What ``app`` says now, as plain JSON; values of the env are kept apart, encrypted."""
    return {
        "workspace": app.workspace.slug,
        "name": app.name,
        "image": app.image_reference,
        "command": app.command,
        "ports": app.ports,
        "mounts": app.mounts,
        "health_command": app.health_command,
        "cpu_millis": app.cpu_millis,
        "memory_mib": app.memory_mib,
        "gpu": app.gpu,
        "gpu_kind": app.gpu_kind,
        "gpu_capabilities": app.gpu_capabilities,
        "runtime": app.runtime,
        "replicas": app.replicas,
        "node_id": app.node_id,
    }


def env_of(app: App) -> dict[str, str]:
    """The env with the values of referenced secrets; the app's own keys win."""
    own: dict[str, str] = app.env
    merged: dict[str, str] = {}
    if app.secret_refs:
        secrets = Secret.objects.filter(workspace_id=app.workspace_id, name__in=app.secret_refs).order_by("name")
        for secret in secrets:
            merged |= secret.data
    return merged | own


def ask_of(spec: Mapping[str, Any]) -> Ask:
    return Ask(
        gpu=spec["gpu"],
        cpu_millis=spec["cpu_millis"],
        memory_mib=spec["memory_mib"],
        runtime=spec["runtime"],
        replicas=spec["replicas"],
    )


def volume_name(workspace: str, volume: str) -> str:
    """The engine's name of a workspace's volume: two workspaces' ``data`` never meet."""
    return f"miabi-{workspace}.{volume}"


def owner_labels(installation: object) -> dict[str, str]:
    """The label that makes a container ours."""
    return {LABEL_PREFIX + "installation": str(installation), LABEL_PREFIX + "role": "app"}


def container_labels(deployment: Deployment, installation: object) -> dict[str, str]:
    return owner_labels(installation) | {
        LABEL_PREFIX + "workspace": deployment.spec["workspace"],
        LABEL_PREFIX + "app": str(deployment.app_id),
        LABEL_PREFIX + "deployment": str(deployment.pk),
        LABEL_PREFIX + "attempt": str(deployment.number),
    }


def container_spec(
    deployment: Deployment, device_uuids: Sequence[str], installation: object, limits: Limits
) -> ContainerSpec:
    """The container of ``deployment``, seeing exactly ``device_uuids``.

    The granted count and UUIDs are also told under names of our own: programs that read
    ``NVIDIA_VISIBLE_DEVICES`` get it from the engine's driver.
    """
    spec = deployment.spec
    restricted = limits.security_profile is SecurityProfile.RESTRICTED
    env = dict(deployment.env) | {
        "MIABI_WORKSPACE": spec["workspace"],
        "MIABI_APP": spec["name"],
        "MIABI_DEPLOYMENT": str(deployment.number),
        "MIABI_GPU_COUNT": str(len(device_uuids)),
        "MIABI_GPU_UUIDS": ",".join(device_uuids),
    }
    return ContainerSpec(
        name=deployment.container_name,
        image=spec["image"],
        labels=container_labels(deployment, installation),
        command=tuple(spec["command"]),
        env=env,
        gpu=GpuAttachment(tuple(device_uuids), frozenset(spec["gpu_capabilities"] or ["compute"]) | {"utility"})
        if device_uuids
        else None,
        ports=tuple(
            PortMapping(port["container"], port.get("protocol", "tcp"), port.get("publish", False))
            for port in spec["ports"]
        ),
        volumes=tuple(
            VolumeMount(volume_name(spec["workspace"], mount["volume"]), mount["path"], mount.get("read_only", False))
            for mount in spec["mounts"]
        ),
        nano_cpus=spec["cpu_millis"] * 1_000_000 if spec["cpu_millis"] else None,
        memory_bytes=spec["memory_mib"] * 1024 * 1024 if spec["memory_mib"] else None,
        user=RESTRICTED_USER if restricted else "",
        cap_add=() if restricted else ALLOWED_CAPABILITIES,
        health=HealthCheck(tuple(spec["health_command"])) if spec["health_command"] else None,
    )

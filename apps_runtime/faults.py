"""What an engine's error means for a deployment: retry or fail, and in whose words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engines import contract


@dataclass(frozen=True, slots=True)
class Fault:
    """``sentence`` is safe for tenants; the engine's own text stays with operators."""

    code: str
    sentence: str
    passing: bool
    """Worth another try: the engine may be back in a moment."""


def classify(error: contract.EngineError, node: str, image: str) -> Fault:
    """The fault behind ``error``, raised while working on ``node``."""
    match error:
        case contract.EngineTimeout(phase="pull"):
            return Fault(
                "image_pull_timeout",
                f"Pulling {image} took too long on node {node}. Try again, or use a smaller image.",
                passing=False,
            )
        case contract.EngineTimeout():
            return Fault("engine_timeout", f"Node {node} did not answer in time.", passing=True)
        case contract.EngineUnreachable():
            return Fault("node_unreachable", f"Node {node} cannot be reached at the moment.", passing=True)
        case contract.ImageUnavailable():
            return Fault(
                "image_unavailable",
                f"Node {node} cannot pull image {image}. Check its name and tag, and the registry's credentials.",
                passing=False,
            )
        case contract.GpuDriverMissing():
            return Fault(
                "gpu_node_not_capable",
                f"Node {node} cannot attach GPUs at the moment. Choose another node, or ask the operator.",
                passing=False,
            )
        case contract.DeviceRefused():
            return Fault(
                "gpu_device_refused",
                f"Node {node} refused a granted device. Deploy again to get another one, or ask the operator.",
                passing=False,
            )
        case contract.NameTaken():
            return Fault(
                "container_name_taken",
                f"Node {node} has a container of another origin under this deployment's name. Deploy again.",
                passing=False,
            )
        case contract.StartRefused():
            return Fault(
                "container_start_refused",
                f"The container could not be started on node {node}. Check the command and the volumes.",
                passing=False,
            )
        case contract.ContainerNotFound():
            return Fault("container_gone", f"The container disappeared from node {node}. Deploy again.", passing=False)
        case contract.RequestRefused():
            return Fault(
                "container_refused",
                f"Node {node} refused the container as it is declared. Check the app's settings.",
                passing=False,
            )
        case _:
            return Fault("engine_error", f"Node {node} could not do what was asked.", passing=True)

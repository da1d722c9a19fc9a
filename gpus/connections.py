"""From a node's row to the engine behind it."""

from __future__ import annotations

from django.conf import settings

from engines.contract import Engine, EngineAddress, TlsMaterial
from engines.docker import connect
from gpus.models import Node


def engine_for(node: Node) -> Engine:
    """The engine of ``node``; its connections are shared by all threads. Nothing is sent yet."""
    tls = TlsMaterial(**node.credentials) if node.credentials else None
    address = EngineAddress(node.address, tls, settings.MIABI_ENGINE_TIMEOUT_SECONDS)
    return connect(address, attach_mode="cdi" if node.attach_mode == Node.AttachMode.CDI else "device_request")

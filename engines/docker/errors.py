"""What engines, docker-py, requests and ssl say, as the contract's errors: the one place."""

from __future__ import annotations

import re
import ssl

import requests
import urllib3.exceptions
from docker.errors import DockerException

from engines.contract import (
    ContainerNotFound,
    DeviceRefused,
    EngineError,
    EngineTimeout,
    EngineUnreachable,
    GpuDriverFailed,
    GpuDriverMissing,
    ImageUnavailable,
    NameTaken,
    RequestRefused,
    StartRefused,
)

MESSAGE_LIMIT = 4000
"""Characters of an engine's text that are kept."""

# dockerd found nothing to serve a device request with, the runtime is not configured, or the
# toolkit's hook refuses to be called by ``--gpus`` at all.
_DRIVER_MISSING = re.compile(
    r"could not select device driver"
    r"|unknown or invalid runtime name"
    r"|failed to discover GPU vendor from CDI"
    r"|invoking the NVIDIA Container Runtime Hook directly",
    re.IGNORECASE,
)
# The toolkit is there and the kernel driver did not answer it.
_DRIVER_FAILED = re.compile(
    r"nvidia-container-cli: (?:initialization error|detection error|ldcache error)"
    r"|driver/library version mismatch"
    r"|nvml error: driver not loaded"
    r"|libnvidia-ml\.so[.\d]*: cannot open",
    re.IGNORECASE,
)
_DEVICE_REFUSED = re.compile(
    r"nvidia-container-cli: device error|unknown device|unresolvable CDI devices",
    re.IGNORECASE,
)
# Quoted in the engine's text, but a tenant's: a command called "unknown device" accuses no card.
_TENANT_WORDS = re.compile(r'(?:exec: |rootfs at )\\*"(?:\\.|[^"\\])*\\*"')
# Sentences with which registries and engines refuse a pull, whatever the status.
_IMAGE_UNAVAILABLE = re.compile(
    r"manifest unknown|manifest for .* not found|not found: manifest|no such image"
    r"|repository does not exist|repository .* not found|pull access denied"
    r"|toomanyrequests|rate limit|denied: |unauthorized|authentication required"
    r"|no such host|no basic auth credentials|no matching manifest"
    r"|does not match the specified platform|invalid reference format"
    r"|dial tcp|TLS handshake timeout|net/http: request canceled|i/o timeout|x509:",
    re.IGNORECASE,
)
_NAME_IN_USE = re.compile(r"name .* is already in use", re.IGNORECASE)
_GATEWAY_STATUSES = frozenset({502, 503, 504})


def from_exception(error: Exception, *, phase: str = "call") -> EngineError:
    """The contract's error for what a library raised while talking to an engine.

    No answer came: the engine may or may not have acted.
    """
    if isinstance(error, DockerException) and not isinstance(error, requests.RequestException):
        # docker-py wraps all that goes wrong while it asks for the version.
        if isinstance(error.__cause__, Exception):
            return from_exception(error.__cause__, phase=phase)
        return EngineUnreachable(_clip(f"not usable as an engine: {error}"))
    if _is_timeout(error):
        return EngineTimeout(_clip(f"no answer in time: {error}"), phase=phase)
    if isinstance(error, ssl.SSLError):
        return EngineUnreachable(_clip(f"TLS cannot be used: {error}"))
    return EngineUnreachable(_clip(f"{type(error).__name__}: {error}"))


def _is_timeout(error: BaseException) -> bool:
    if isinstance(error, requests.Timeout | TimeoutError | urllib3.exceptions.TimeoutError):
        return True
    # requests hides a read timeout of a streamed body in a ConnectionError.
    return isinstance(error, requests.ConnectionError) and any(
        isinstance(inner, urllib3.exceptions.ReadTimeoutError) for inner in error.args
    )


def from_answer(status: int, message: str, *, phase: str = "call") -> EngineError:
    """The contract's error for an answer of ``status`` >= 400.

    ``phase`` is what was asked: ``call``, ``create``, ``start``, ``wait`` or ``pull``.
    The same status means different things in different phases: 404 on a create is
    about the image, elsewhere about the container.
    """
    message = _clip(message)
    if status in _GATEWAY_STATUSES:
        return EngineUnreachable(message)
    if phase == "pull":
        # Status 500 with another text is the engine's own trouble (a full disk, say).
        unavailable = status < 500 or _IMAGE_UNAVAILABLE.search(message)
        return ImageUnavailable(message) if unavailable else EngineError(message)
    if phase in ("create", "start"):
        gpu = _gpu_error(message)
        if gpu is not None:
            return gpu
    if phase == "create":
        return _create_error(status, message)
    if status == 404 and "no such container" in message.lower():
        # Only these words confirm an absence: a proxy in between says 404 to anything.
        return ContainerNotFound(message)
    if phase == "start":
        return StartRefused(message)
    return RequestRefused(message) if status < 500 else EngineError(message)


def from_pull_stream(message: str) -> EngineError:
    """The error of a pull that failed after it had begun: status 200, the error in the stream."""
    message = _clip(message)
    # "no space left on device" and the like are the engine's, not the image's.
    own_trouble = re.search(r"no space left|read-only file system|failed to register layer", message)
    return EngineError(message) if own_trouble else ImageUnavailable(message)


def _gpu_error(message: str) -> EngineError | None:
    words = _TENANT_WORDS.sub("", message)
    if _DRIVER_MISSING.search(words):
        return GpuDriverMissing(message)
    if _DRIVER_FAILED.search(words):
        return GpuDriverFailed(message)
    if _DEVICE_REFUSED.search(words):
        return DeviceRefused(message)
    return None


def _create_error(status: int, message: str) -> EngineError:
    if status == 409 and _NAME_IN_USE.search(message):
        return NameTaken(message)
    if status == 404 or _IMAGE_UNAVAILABLE.search(message):
        return ImageUnavailable(message)
    return RequestRefused(message) if status < 500 else EngineError(message)


def _clip(message: str) -> str:
    return message.strip()[:MESSAGE_LIMIT]

"""What engines say, and what it means."""

from __future__ import annotations

import pytest
import requests
import urllib3.exceptions

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
from engines.docker import errors

HOOK = (
    "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container "
    "process: error during container init: error running hook #0: error running hook: exit status 1, "
    "stdout: , stderr: "
)


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', GpuDriverMissing),
        (
            'could not select device driver "nvidia" with capabilities: [[gpu compute utility]]',
            GpuDriverMissing,
        ),
        ('could not select device driver "cdi" with capabilities: []', GpuDriverMissing),
        ("unknown or invalid runtime name: nvidia", GpuDriverMissing),
        (
            HOOK + "invoking the NVIDIA Container Runtime Hook directly (e.g. --gpus) is not supported",
            GpuDriverMissing,
        ),
        (HOOK + "nvidia-container-cli: initialization error: nvml error: driver not loaded", GpuDriverFailed),
        (
            HOOK + "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
            GpuDriverFailed,
        ),
        (HOOK + "nvidia-container-cli: device error: GPU-9: unknown device: unknown", DeviceRefused),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-9", DeviceRefused),
        (HOOK + "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4", StartRefused),
        ('OCI runtime create failed: exec: "serve": executable file not found in $PATH', StartRefused),
        ("driver failed programming external connectivity: port is already allocated", StartRefused),
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_refused_start_says_whose_fault_it_is(message: str, meaning: type[EngineError], status: int) -> None:
    assert type(errors.from_answer(status, message, phase="start")) is meaning


@pytest.mark.parametrize(
    "message",
    [
        'OCI runtime create failed: exec: "unknown device": executable file not found in $PATH',
        'OCI runtime create failed: exec: "a \\"b unresolvable CDI devices": permission denied',
        'error mounting "/x/_data" to rootfs at "/nvidia-container-cli: device error": not a directory',
    ],
)
def test_a_tenants_words_in_an_error_accuse_no_card(message: str) -> None:
    assert type(errors.from_answer(400, message, phase="start")) is StartRefused


@pytest.mark.parametrize(
    "message",
    [
        "manifest for nvidia/cuda:9.9 not found: manifest unknown: manifest unknown",
        "toomanyrequests: You have reached your pull rate limit.",
        "pull access denied for x, repository does not exist or may require a login: denied",
        'Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com: no such host',
        'Get "https://registry.example.com/v2/": net/http: TLS handshake timeout',
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
    ],
)
@pytest.mark.parametrize("status", [404, 500])
def test_a_registry_that_does_not_serve_the_image_is_an_unavailable_image(message: str, status: int) -> None:
    assert type(errors.from_answer(status, message, phase="pull")) is ImageUnavailable
    assert type(errors.from_pull_stream(message)) is ImageUnavailable


def test_a_full_disk_is_not_the_images_fault() -> None:
    message = "failed to register layer: write /x: no space left on device"

    assert type(errors.from_answer(500, message, phase="pull")) is EngineError
    assert type(errors.from_pull_stream(message)) is EngineError


@pytest.mark.parametrize(
    ("status", "message", "phase", "meaning"),
    [
        (404, "No such image: nope:1", "create", ImageUnavailable),
        (409, 'Conflict. The container name "/x" is already in use by container "1".', "create", NameTaken),
        (400, "invalid mount path", "create", RequestRefused),
        (500, "disk I/O error", "create", EngineError),
        (404, "No such container: x", "start", ContainerNotFound),
        (404, "No such container: x", "call", ContainerNotFound),
        (409, "Container x is not running", "call", RequestRefused),
        (500, "cannot kill container", "call", EngineError),
        (503, "upstream is gone", "start", EngineUnreachable),
        (502, "bad gateway", "call", EngineUnreachable),
    ],
)
def test_a_status_is_read_together_with_what_was_asked(
    status: int, message: str, phase: str, meaning: type[EngineError]
) -> None:
    assert type(errors.from_answer(status, message, phase=phase)) is meaning


def test_only_the_engines_own_words_confirm_an_absence() -> None:
    assert type(errors.from_answer(404, "<html>nginx: not found</html>")) is RequestRefused


@pytest.mark.parametrize(
    "raised",
    [
        requests.ReadTimeout("slow"),
        requests.ConnectTimeout("slow"),
        requests.ConnectionError(urllib3.exceptions.ReadTimeoutError(None, "/", "slow")),  # type: ignore[arg-type]
        TimeoutError("slow"),
    ],
)
def test_a_timeout_is_told_with_its_phase(raised: Exception) -> None:
    error = errors.from_exception(raised, phase="create")

    assert isinstance(error, EngineTimeout)
    assert error.phase == "create"


@pytest.mark.parametrize(
    "raised",
    [
        requests.ConnectionError("refused"),
        urllib3.exceptions.ProtocolError("cut"),
        FileNotFoundError("/no.sock"),
    ],
)
def test_a_broken_connection_is_an_unreachable_engine(raised: Exception) -> None:
    assert type(errors.from_exception(raised)) is EngineUnreachable

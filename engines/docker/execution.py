"""Running a command inside a running container."""

from __future__ import annotations

import re
import time
from contextlib import closing

from engines.contract import ExecResult, RequestRefused
from engines.docker.logs import Demultiplexer
from engines.docker.records import created_id, exec_exit_code
from engines.docker.streams import arrivals
from engines.docker.transport import Transport, segment

OUTPUT_LIMIT_BYTES = 1024 * 1024
"""What the command prints beyond this is read and dropped."""

_CANNOT_EXECUTE = (126, 127)
_EXIT_POLL_S = 0.02
# Engines begin the answer before the process, so that a failure to start it comes as output.
_NOT_STARTED = re.compile(rb"\A(?:OCI runtime exec failed|exec failed|rpc error)")


def execute(transport: Transport, container: str, command: tuple[str, ...], *, deadline_s: float) -> ExecResult:
    """Run ``command`` and return its exit code and output (both streams, interleaved).

    At the deadline the connection is given up; the process may go on in the container.

    Raises:
        ContainerNotFound, EngineTimeout
        RequestRefused: the container does not run, or there is no such binary.
    """
    deadline = time.monotonic() + deadline_s
    created = transport.call(
        "POST",
        f"/containers/{segment(container)}/exec",
        body={"AttachStdout": True, "AttachStderr": True, "Tty": False, "Cmd": list(command)},
        timeout_s=deadline_s,
    )
    created.raise_for_error()
    exec_id = created.read_as(created_id)
    output = _output(transport, exec_id, deadline=deadline)
    exit_code = _exit_code(transport, exec_id, deadline=deadline)
    if exit_code in _CANNOT_EXECUTE and _NOT_STARTED.match(output):
        raise RequestRefused(output.decode(errors="replace").strip())
    return ExecResult(exit_code=exit_code, output=output)


def _output(transport: Transport, exec_id: str, *, deadline: float) -> bytes:
    left_s = max(0.001, deadline - time.monotonic())
    opening = transport.stream(
        "POST", f"/exec/{segment(exec_id)}/start", body={"Detach": False, "Tty": False}, timeout_s=left_s
    )
    frames = Demultiplexer()
    output = bytearray()
    with closing(arrivals(transport, opening, heartbeat_s=left_s, deadline=deadline)) as parts:
        for part in parts:
            for _, payload in frames.feed(part):
                output += payload[: OUTPUT_LIMIT_BYTES - len(output)]
    return bytes(output)


def _exit_code(transport: Transport, exec_id: str, *, deadline: float) -> int | None:
    """None when the engine has not recorded the end by ``deadline``."""
    while True:
        answer = transport.call("GET", f"/exec/{segment(exec_id)}/json")
        answer.raise_for_error()
        exit_code = answer.read_as(exec_exit_code)
        if exit_code is not None:
            return exit_code
        if time.monotonic() > deadline:
            return None
        # The output's end overtakes the engine's record of the exit.
        time.sleep(_EXIT_POLL_S)

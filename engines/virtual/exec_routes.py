"""The paths of exec: a command run in a running container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from engines.virtual.containers import Exec
from engines.virtual.json_shape import EXEC_START, check_shape
from engines.virtual.messages import Answer, ApiError, Request, answer_json
from engines.virtual.node import VirtualNode
from engines.virtual.output import frame
from engines.virtual.processes import pause
from engines.virtual.programs import NOT_FOUND, STDERR, STDOUT, Program


async def exec_create(node: VirtualNode, request: Request, key: str) -> Answer:
    return answer_json({"Id": node.add_exec(node.find(key), request.json).id}, 201)


async def exec_start(node: VirtualNode, request: Request, key: str) -> Answer:
    """As dockerd: the answer begins before the process, so its failure to start comes as output."""
    made = _find(node, key)
    body = request.json
    check_shape(body, EXEC_START)
    detached = bool(body.get("Detach"))
    if made.started:
        raise ApiError(409, f"exec command {made.id} has already run")
    if not made.container.running:
        raise ApiError(409, f"container {made.container.id} is not running")
    made.started = True
    program = node.program(made.container, made.command, env=made.env, serves=False)
    if missing := program.missing_executable():
        made.exit_code = NOT_FOUND
        words = (
            f'OCI runtime exec failed: exec failed: unable to start container process: exec: "{missing}": executable '
            "file not found in $PATH: unknown"
        )
        if detached:
            raise ApiError(400, words)
        return _raw(made, _said(words))
    if detached:
        made.container.tasks.append(asyncio.get_running_loop().create_task(_drain(_frames(made, program))))
        return Answer(200)
    return _raw(made, _frames(made, program))


def _raw(made: Exec, stream: AsyncIterator[bytes]) -> Answer:
    kind = "raw" if made.terminal else "multiplexed"
    return Answer(stream=stream, raw=True, content_type=f"application/vnd.docker.{kind}-stream")


async def _said(words: str) -> AsyncIterator[bytes]:
    yield frame(STDOUT, words.encode() + b"\r\n")


async def _frames(made: Exec, program: Program) -> AsyncIterator[bytes]:
    """Ends with the command, or with the container."""
    made.running = True
    wanted = {stream for stream, yes in ((STDOUT, made.stdout), (STDERR, made.stderr)) if yes}
    try:
        for step in program.run():
            if not isinstance(step, tuple):
                if not await _outlasts(made, step):
                    program.exit_code = made.container.exit_code or 137
                    break
            elif step[0] in wanted:
                yield step[1] if made.terminal else frame(*step)
    finally:
        made.running, made.exit_code = False, program.exit_code


async def _outlasts(made: Exec, seconds: float) -> bool:
    """Wait; False when the container ended meanwhile."""
    waiting = asyncio.ensure_future(pause(seconds))
    try:
        while made.container.running:
            changed = asyncio.ensure_future(made.container.changed.wait())
            await asyncio.wait({waiting, changed}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if waiting.done():
                return True
        return False
    finally:
        waiting.cancel()


async def _drain(stream: AsyncIterator[bytes]) -> None:
    async for _ in stream:
        pass


async def exec_inspect(node: VirtualNode, request: Request, key: str) -> Answer:
    made = _find(node, key)
    return answer_json(
        {
            "ID": made.id,
            "Running": made.running,
            "ExitCode": made.exit_code,
            "ProcessConfig": {
                "tty": made.terminal,
                "entrypoint": made.command[0],
                "arguments": made.command[1:],
                "privileged": False,
            },
            "OpenStdin": False,
            "OpenStderr": made.stderr,
            "OpenStdout": made.stdout,
            "CanRemove": False,
            "ContainerID": made.container.id,
            "Pid": 4242 if made.running else 0,
        }
    )


def _find(node: VirtualNode, key: str) -> Exec:
    if key not in node.execs:
        raise ApiError(404, f"No such exec instance: {key}")
    return node.execs[key]

"""An app's output: from the engine while its container is there, else the kept tail."""

from __future__ import annotations

from collections.abc import Iterator

from apps_runtime.models import Deployment
from engines.contract import ContainerNotFound, EngineError
from gpus.connections import engine_for
from refusals import Unavailable


class LogsUnavailable(Unavailable):
    code = "logs_unavailable"


def read_logs(deployment: Deployment, *, tail: int = 200, follow: bool = False) -> Iterator[bytes]:
    """Chunks of whole lines, the last ``tail`` first; with ``follow``, on until it ends.

    Raises:
        LogsUnavailable: the node cannot be asked now (before the first chunk).
    """
    if not deployment.engine_handle or deployment.ended_at is not None:
        return iter(_kept(deployment, tail))
    try:
        chunks = engine_for(deployment.node).logs(deployment.engine_handle, tail=tail, follow=follow)
    except ContainerNotFound:
        return iter(_kept(deployment, tail))
    except EngineError as error:
        raise LogsUnavailable(
            f"The logs of {deployment} are on node {deployment.node.name}, which does not answer now. Try again later.",
            operator_detail=error.message,
        ) from error
    return _until_broken(chunks)


def _until_broken(chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except EngineError:
        yield b"[the connection to the node broke]\n"


def _kept(deployment: Deployment, tail: int) -> list[bytes]:
    lines = deployment.log_tail.encode().splitlines(keepends=True)
    return lines[-tail:] if tail else []

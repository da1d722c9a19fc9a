"""Virtual nodes in a thread of this process: for tests and benchmarks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from engines.virtual.node import VirtualNode
from engines.virtual.server import listen

R = TypeVar("R")


class Serving:
    """The running loop; ``call`` runs a function inside it, where nodes may be changed safely."""

    def __init__(self, loop: asyncio.AbstractEventLoop, urls: list[str]) -> None:
        self.loop, self.urls = loop, urls

    def call(self, function: Callable[[], R]) -> R:
        async def inside() -> R:
            return function()

        return asyncio.run_coroutine_threadsafe(inside(), self.loop).result(30)


@contextmanager
def serve(nodes: Sequence[VirtualNode], folder: Path) -> Iterator[Serving]:
    """Serve each node at a socket ``<folder>/<name>.sock`` until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="virtual-nodes", daemon=True)
    thread.start()
    urls = [f"unix://{folder / node.name}.sock" for node in nodes]

    async def begin() -> list[asyncio.Server]:
        return [await listen(node, url) for node, url in zip(nodes, urls, strict=True)]

    servers = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield Serving(loop, urls)
    finally:
        asyncio.run_coroutine_threadsafe(_end(servers), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

"""Virtual nodes in a thread of this process: for tests and benchmarks."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from engines.virtual.node import VirtualNode
from engines.virtual.server import Listener, listen

R = TypeVar("R")


class Serving:
    """The running loop; ``call`` runs a function inside it, where nodes may be changed safely."""

    def __init__(self, loop: asyncio.AbstractEventLoop, nodes: Sequence[VirtualNode], urls: list[str]) -> None:
        self.loop, self.nodes, self.urls = loop, nodes, urls

    def call(self, function: Callable[[], R]) -> R:
        async def inside() -> R:
            return function()

        return asyncio.run_coroutine_threadsafe(inside(), self.loop).result(30)

    def url_of(self, node: VirtualNode) -> str:
        return next(url for each, url in zip(self.nodes, self.urls, strict=True) if each is node)


@contextmanager
def serve(nodes: Sequence[VirtualNode], folder: Path | None = None, *, tcp: bool = False) -> Iterator[Serving]:
    """Serve each node until the block ends, at a socket ``<folder>/<name>.sock`` or a free TCP port.

    Without a folder the sockets lie in a temporary one, with a short path.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="virtual-nodes", daemon=True)
    with tempfile.TemporaryDirectory(prefix="virtual-") as temporary:
        place = folder or Path(temporary)
        asked = ["tcp://127.0.0.1:0" if tcp else f"unix://{place / node.name}.sock" for node in nodes]
        listeners: list[Listener] = []

        async def begin() -> None:
            for node, url in zip(nodes, asked, strict=True):
                listeners.append(await listen(node, url))

        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
            yield Serving(loop, nodes, [listener.url for listener in listeners])
        finally:
            asyncio.run_coroutine_threadsafe(_end(listeners), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()


async def _end(listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        listener.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

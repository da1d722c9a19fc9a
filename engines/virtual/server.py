"""Where virtual nodes listen: one Unix socket or TCP port a node."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from urllib.parse import urlsplit

from engines.virtual.connection import Connection
from engines.virtual.node import VirtualNode


class Listener:
    """A node that is served at ``url``, until ``close``."""

    def __init__(self, server: asyncio.Server, url: str) -> None:
        self._server = server
        self.url = url

    def close(self) -> None:
        self._server.close()
        if self.url.startswith("unix://"):
            with suppress(FileNotFoundError):
                os.unlink(self.url.removeprefix("unix://"))


async def listen(node: VirtualNode, url: str) -> Listener:
    """Serve ``node`` at ``unix:///path`` or ``tcp://host:port`` (port 0: a free one).

    Raises:
        ValueError: no such address can be.
        OSError: the address is in use, or not ours to use.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(node, reader, writer).serve()

    parts = urlsplit(url)
    if parts.scheme == "unix":
        path = url.removeprefix("unix://")
        _make_room(path)
        server = await asyncio.start_unix_server(connected, path)
        os.chmod(path, 0o600)
        return Listener(server, url)
    if parts.scheme != "tcp" or not parts.hostname or parts.port is None:
        raise ValueError(f"{url!r} is neither unix:///path nor tcp://host:port")
    server = await asyncio.start_server(connected, parts.hostname, parts.port)
    return Listener(server, f"tcp://{parts.hostname}:{server.sockets[0].getsockname()[1]}")


def _make_room(path: str) -> None:
    """Remove the socket that an earlier process left at ``path``; nothing else, and none in use."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} is there and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise FileExistsError(f"something listens at {path} already")

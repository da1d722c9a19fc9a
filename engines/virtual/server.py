"""HTTP for virtual nodes: asyncio and h11, one Unix socket or TCP port a node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from engines.virtual.faults import Fault
from engines.virtual.node import VirtualNode
from engines.virtual.routes import Answer, ApiError, Request, find_route

CHUNK = 64 * 1024
MAX_BODY = 4 * 1024 * 1024
HANG_SECONDS = 3600.0


class Dropped(Exception):
    pass


async def listen(node: VirtualNode, url: str) -> asyncio.Server:
    """Serve ``node`` at ``unix:///path`` or ``tcp://host:port`` (port 0: a free one)."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Connection(node, reader, writer).serve()

    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        with suppress(FileNotFoundError):
            os.unlink(path)
        return await asyncio.start_unix_server(connected, path)
    parts = urlsplit(url)
    return await asyncio.start_server(connected, parts.hostname, parts.port)


class _Connection:
    def __init__(self, node: VirtualNode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node, self.reader, self.writer = node, reader, writer
        self.http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        try:
            while True:
                request = await self._receive()
                if request is None:
                    return
                await self._answer(request)
                if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
                    return
                self.http.start_next_cycle()
        except (Dropped, ConnectionError, h11.ProtocolError, asyncio.CancelledError):
            return
        finally:
            self.writer.close()

    async def _receive(self) -> Request | None:
        head: h11.Request | None = None
        body = b""
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self.reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
                if len(body) > MAX_BODY:
                    raise Dropped
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                parts = urlsplit(head.target.decode())
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                return Request(head.method.decode(), unquote(parts.path), query, body)
            else:
                return None

    async def _answer(self, request: Request) -> None:
        try:
            operation, handler, key = find_route(request.method, request.path)
            fault = self.node.faults.next_for(operation)
            if fault is not None:
                await _before(fault)
            answer = await handler(self.node, request, key)
            if fault is not None and fault.how == "act_then_drop":
                raise Dropped
        except ApiError as error:
            answer = Answer(error.status, json.dumps({"message": error.message}).encode())
        await self._send(request, answer)

    async def _send(self, request: Request, answer: Answer) -> None:
        headers = [("Content-Type", answer.content_type), ("Api-Version", self.node.api_version)]
        headers += [("Docker-Experimental", "false"), ("Ostype", "linux"), *answer.headers.items()]
        if answer.stream is None:
            if answer.status not in (204, 304):
                headers.append(("Content-Length", str(len(answer.body))))
            self._write(h11.Response(status_code=answer.status, headers=headers))
            if answer.body and request.method != "HEAD":
                self._write(h11.Data(data=answer.body))
            self._write(h11.EndOfMessage())
            await self.writer.drain()
        elif answer.raw:
            await self._send_raw(answer.stream, headers)
        else:
            self._write(h11.Response(status_code=answer.status, headers=[*headers, ("Transfer-Encoding", "chunked")]))
            await self.writer.drain()
            async for chunk in answer.stream:
                self._write(h11.Data(data=chunk))
                await self.writer.drain()
            self._write(h11.EndOfMessage())
            await self.writer.drain()

    async def _send_raw(self, stream: AsyncIterator[bytes], headers: list[tuple[str, str]]) -> None:
        """Frames right after the head until the connection closes, as dockerd's exec does."""
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self.writer.write(f"HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n".encode())
        async for chunk in stream:
            self.writer.write(chunk)
            await self.writer.drain()
        raise Dropped

    def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self.writer.write(self.http.send(event) or b"")


async def _before(fault: Fault) -> None:
    match fault.how:
        case "hang":
            await asyncio.sleep(HANG_SECONDS)
        case "latency":
            await asyncio.sleep(fault.seconds)
        case "drop":
            raise Dropped
        case "error":
            raise ApiError(fault.status, fault.message)
        case "act_then_drop":
            return

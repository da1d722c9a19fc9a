"""HTTP on one connection to a virtual node, by h11."""

from __future__ import annotations

import asyncio
import fcntl
import json
import struct
import termios
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from engines.virtual.faults import Fate, Fault
from engines.virtual.messages import Answer, ApiError, Request
from engines.virtual.node import VirtualNode
from engines.virtual.routes import CONTROL, find_route

CHUNK = 64 * 1024
MAX_BODY = 4 * 1024 * 1024
HEAD_WAIT_S = 1.0
_SIOCOUTQ = termios.TIOCOUTQ


class Dropped(Exception):
    """The connection ends here, whatever was still to be said."""


class Connection:
    """One client's connection to ``node``: requests one after the other, each with its faults."""

    def __init__(self, node: VirtualNode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node, self.reader, self.writer = node, reader, writer
        self.http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        cut = self.writer.transport.abort
        self.node.connections.add(cut)
        try:
            while True:
                request = await self._receive()
                if request is None or not await self._answer(request):
                    return
                if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
                    return
                self.http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(error)
        except (Dropped, ConnectionError, asyncio.CancelledError):
            return
        finally:
            self.node.connections.discard(cut)
            self.writer.close()

    async def _receive(self) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                if self.http.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                    self.writer.write(self.http.send(go_on) or b"")
                self.http.receive_data(await self.reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    raise Dropped
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return _request(head, bytes(body))
            else:
                return None

    async def _answer(self, request: Request) -> bool:
        """Whether the connection goes on."""
        node = self.node
        fate = Fate()
        try:
            operation, handler, key = find_route(node, request.method, request.path)
            if operation == CONTROL:
                # A restart of the node, asked for on this connection, is answered on it.
                node.connections.discard(self.writer.transport.abort)
            elif time.monotonic() < node.down_until:
                return False
            else:
                fate = node.faults.fate_of(operation)
                await self._before(fate)
            answer = await handler(node, replace(request, fault=fate.fault), key)
        except ApiError as error:
            answer = Answer(error.status, json.dumps({"message": error.message}).encode() + b"\n")
        if fate.fault is not None:
            await self._after(fate.fault)
        await self._send(request, answer, fate.fault)
        return True

    async def _before(self, fate: Fate) -> None:
        # The engine acts in the end, even if the client has given up by then.
        await asyncio.sleep(fate.delay_s)
        match fate.fault:
            case Fault(how="hang"):
                await self._hang()
            case Fault(how="drop"):
                raise Dropped
            case Fault(how="error", in_stream=False) as fault:
                raise ApiError(fault.status, fault.message)

    async def _after(self, fault: Fault) -> None:
        if fault.how == "act_then_drop":
            raise Dropped
        if fault.how == "act_then_hang":
            await self._hang()

    async def _hang(self) -> None:
        """Say nothing until the client gives up."""
        await self._while_connected(asyncio.Event().wait())

    async def _while_connected(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do ``work``, but drop it as soon as the client has gone."""
        doing = asyncio.ensure_future(work)
        try:
            while not doing.done():
                watching = asyncio.ensure_future(self.reader.read(CHUNK))
                await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not watching.done():
                    watching.cancel()
                    with suppress(asyncio.CancelledError):
                        await watching
                elif data := watching.result():
                    with suppress(h11.ProtocolError):
                        self.http.receive_data(data)
                else:
                    raise Dropped
            await doing
        finally:
            doing.cancel()
            with suppress(asyncio.CancelledError, Dropped, ConnectionError):
                await doing

    async def _send(self, request: Request, answer: Answer, fault: Fault | None) -> None:
        headers = [("Content-Type", answer.content_type)] if answer.status not in (204, 304) else []
        headers += [
            ("Api-Version", self.node.api_version),
            ("Docker-Experimental", "false"),
            ("Ostype", "linux"),
            ("Server", "Docker/28.0.0-virtual (linux)"),
            *answer.headers.items(),
        ]
        if answer.stream is None:
            if answer.status not in (204, 304):
                headers.append(("Content-Length", str(len(answer.body))))
            self._write(h11.Response(status_code=answer.status, headers=headers, reason=_reason(answer.status)))
            if answer.body and request.method != "HEAD":
                self._write(h11.Data(data=answer.body))
            self._write(h11.EndOfMessage())
            await self.writer.drain()
            return
        stream = _cut(answer.stream, fault) if fault is not None and fault.how == "cut" else answer.stream
        work = self._send_raw(request, stream, headers) if answer.raw else self._send_chunks(stream, headers)
        await self._while_connected(work)

    async def _send_chunks(self, stream: AsyncIterator[bytes], headers: list[tuple[str, str]]) -> None:
        # The head goes first: a client that waits for the end knows by it that it waits.
        headers.append(("Transfer-Encoding", "chunked"))
        self._write(h11.Response(status_code=200, headers=headers, reason=b"OK"))
        await self.writer.drain()
        async for chunk in stream:
            self._write(h11.Data(data=chunk))
            await self.writer.drain()
        self._write(h11.EndOfMessage())
        await self.writer.drain()

    async def _send_raw(self, request: Request, stream: AsyncIterator[bytes], headers: list[tuple[str, str]]) -> None:
        """Frames right after the head until the connection closes, as dockerd's exec does."""
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        if request.upgrades:
            lines = ["HTTP/1.1 101 UPGRADED\r\n", *lines, "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"]
        else:
            lines = ["HTTP/1.1 200 OK\r\n", *lines, "Connection: close\r\n\r\n"]
        self.writer.write("".join(lines).encode())
        await self.writer.drain()
        if request.upgrades:
            await self._head_is_read()
        async for chunk in stream:
            self.writer.write(chunk)
            await self.writer.drain()
        raise Dropped

    async def _head_is_read(self) -> None:
        """Wait until the client has taken the head.

        Clients that upgrade read the head through a buffer and the rest from the bare socket:
        what arrives together with the head is lost to them. The kernel tells what of a Unix
        socket's data the peer has not read; of TCP, what it has not acknowledged.
        """
        descriptor = self.writer.transport.get_extra_info("socket").fileno()
        deadline = time.monotonic() + HEAD_WAIT_S
        while time.monotonic() < deadline:
            await asyncio.sleep(0.001)
            with suppress(OSError):
                if struct.unpack("i", fcntl.ioctl(descriptor, _SIOCOUTQ, b"\0" * 4))[0] == 0:
                    break
        await asyncio.sleep(0.001)

    async def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is no HTTP with a 400, as far as the client can still be answered."""
        with suppress(h11.ProtocolError, ConnectionError):
            body = json.dumps({"message": str(error)}).encode()
            headers = [("Content-Length", str(len(body))), ("Connection", "close")]
            self._write(h11.Response(status_code=error.error_status_hint, headers=headers))
            self._write(h11.Data(data=body))
            self._write(h11.EndOfMessage())
            await self.writer.drain()

    def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self.writer.write(self.http.send(event) or b"")


def _request(head: h11.Request, body: bytes) -> Request:
    parts = urlsplit(head.target.decode("ascii", "replace"))
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Request(head.method.decode(), unquote(parts.path), query, body, headers)


async def _cut(stream: AsyncIterator[bytes], fault: Fault) -> AsyncIterator[bytes]:
    left = fault.after_bytes
    async for chunk in stream:
        if len(chunk) >= left:
            if left:
                yield chunk[:left]
            break
        left -= len(chunk)
        yield chunk
    raise Dropped


def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""

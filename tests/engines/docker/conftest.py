"""An HTTP server that answers as an engine would, by script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from engines.contract import EngineAddress
from engines.docker import DockerEngine

Handler = BaseHTTPRequestHandler
Reply = Callable[[Handler], None]


def answer(status: int, body: Any = None) -> Reply:
    """A whole answer with a JSON body."""

    def reply(handler: Handler) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def container_missing() -> Reply:
    return answer(404, {"message": "No such container: x"})


@dataclass
class ScriptedEngine:
    """Replies per call, used up in order; the last one stays."""

    url: str
    script: dict[str, list[Reply]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    api_version: str = "1.41"
    released: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test: lets hung answers go."""

    def on(self, call: str, *replies: Reply) -> None:
        """``call`` is e.g. ``POST /containers/create``: method and path without version."""
        self.script[call] = list(replies)

    def hang(self, handler: Handler) -> None:
        self.released.wait(30)

    def engine(self, timeout_s: float = 5.0) -> DockerEngine:
        return DockerEngine(EngineAddress(self.url, timeout_s=timeout_s))

    def reply_to(self, handler: Handler) -> None:
        path = handler.path.partition("?")[0]
        if path.startswith("/v"):
            path = path if path == "/version" else path[path.index("/", 1) :]
        call = f"{handler.command} {path}"
        self.calls.append(call)
        self.headers.append(dict(handler.headers))
        if call == "GET /version" and call not in self.script:
            answer(200, {"ApiVersion": self.api_version, "Version": "scripted"})(handler)
            return
        replies = self.script.get(call)
        if not replies:
            answer(500, {"message": f"not in the script: {call}"})(handler)
        else:
            (replies.pop(0) if len(replies) > 1 else replies[0])(handler)


@pytest.fixture
def scripted_engine() -> Iterator[ScriptedEngine]:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scripted.reply_to(self)

        do_GET = do_POST = do_DELETE = _handle

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    server.daemon_threads = True
    scripted = ScriptedEngine(f"tcp://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield scripted
    scripted.released.set()
    server.shutdown()
    server.server_close()
    thread.join()

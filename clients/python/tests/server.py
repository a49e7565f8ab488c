"""A real HTTP/1.1 server on this machine that answers as a test says, or breaks the connection."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request that reached the server. The names of the headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Threads

    def setup(self) -> None:
        super().setup()
        # Headers and body are two writes; without this the second one waits for the client's delayed ACK.
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _request(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        headers = {name.lower(): ", ".join(self.headers.get_all(name) or []) for name in self.headers}
        received = Received(self.command, self.path, headers, body)
        owner = self.server.owner
        with owner.lock:
            owner.received.append(received)
            owner.arrived.set()
            behaviour = owner.script.pop(0) if owner.script else owner.otherwise
        behaviour(self, received)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _request

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def wait_for_the_end(self, seconds: float) -> bool:
        """True if the client closes the connection within this time."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and self.connection.recv(1) == b""


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    owner: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


Behaviour = Callable[[Handler, Received], None]


def answer(status: int = 200, body: str | bytes = "done", **headers: str) -> Behaviour:
    """A whole answer. `_` in the name of a header stands for `-`."""
    content = body.encode() if isinstance(body, str) else body

    def behave(handler: Handler, received: Received) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return behave


def reset(handler: Handler, received: Received) -> None:
    """The connection is reset."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.rfile.close()
    handler.wfile.close()
    handler.connection.close()


def close(handler: Handler, received: Received) -> None:
    """The connection is closed without an answer."""
    handler.close_connection = True


def cut_off(handler: Handler, received: Received) -> None:
    """The answer has fewer bytes than its Content-Length says."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
    handler.close_connection = True


def cut_off_chunked(handler: Handler, received: Received) -> None:
    """The answer ends before its last chunk."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    handler.close_connection = True


def silent(handler: Handler, received: Received) -> None:
    """Nothing is sent until the client goes away."""
    _until_the_client_goes(handler, b"")


def drip_headers(handler: Handler, received: Received) -> None:
    """One byte of a header after the other, for as long as the client stays."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    _until_the_client_goes(handler, b".")


def drip_body(handler: Handler, received: Received) -> None:
    """One byte of the body after the other, for as long as the client stays."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    _until_the_client_goes(handler, b".")


def _until_the_client_goes(handler: Handler, byte: bytes) -> None:
    owner = handler.server.owner
    owner.reached.set()
    handler.close_connection = True
    try:
        while not handler.wait_for_the_end(0.02):
            if owner.ended.is_set():
                return
            handler.wfile.write(byte)
    except OSError:
        pass
    owner.left.set()


class Server:
    """Takes one behaviour of `script` for each request; when there is none left, `otherwise`.

    `arrived` is set when a request was read, `reached` when one waits without an end, and `left` when the client has closed such a connection.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.script: list[Behaviour] = []
        self.otherwise: Behaviour = answer()
        self.received: list[Received] = []
        self.arrived = threading.Event()
        self.reached = threading.Event()
        self.left = threading.Event()
        self.ended = threading.Event()
        self._server = _Threads(("127.0.0.1", 0), Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""Tells an attempt which socket httpx uses for it, so that a given-up attempt ends at once.

httpx has no public way to learn the socket of a request before the headers of the answer have come. So the network backend of the
connection pool (`HTTPTransport._pool`) is replaced by one that tells. Where that is not possible (another transport, another httpx, HTTP/2,
whose requests share a socket), the caller is told in time as well; only the given-up thread lives until its operation on the socket ends,
which httpx's timeouts limit.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from .attempt_thread import running_attempt


def watch(transport: httpx.BaseTransport) -> None:
    """Makes the new connections of a transport tell their sockets, where that is possible."""
    pool = getattr(transport, "_pool", None)
    if not isinstance(pool, httpcore.ConnectionPool) or getattr(pool, "_http2", True):
        return
    backend = getattr(pool, "_network_backend", None)
    if isinstance(backend, httpcore.NetworkBackend) and not isinstance(backend, _TellingBackend):
        pool._network_backend = _TellingBackend(backend)


class _TellingBackend(httpcore.NetworkBackend):
    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _TellingStream(self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    def connect_unix_socket(self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None) -> httpcore.NetworkStream:
        return _TellingStream(self._backend.connect_unix_socket(path, timeout, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _TellingStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def _tell(self) -> None:
        attempt, used = running_attempt(), self._stream.get_extra_info("socket")
        if attempt and isinstance(used, socket.socket):
            attempt.uses(used)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._tell()
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._tell()
        self._stream.write(buffer, timeout)

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None) -> httpcore.NetworkStream:
        self._tell()
        return _TellingStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

"""Tells an attempt which socket urllib3 uses for it, so that a given-up attempt ends at once."""

from __future__ import annotations

import socket
from typing import Any

from .attempt_thread import running_attempt


def watch(manager: Any) -> None:
    """Makes the connections of a PoolManager or ProxyManager tell their sockets."""
    classes = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _watched_pool(pool) for scheme, pool in classes.items()}


def _watched_pool(pool: Any) -> Any:
    if issubclass(pool.ConnectionCls, _TellingConnection):
        return pool
    connection = type("TellingConnection", (_TellingConnection, pool.ConnectionCls), {})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


class _TellingConnection:
    """Goes before a connection class of urllib3."""

    sock: socket.socket | None

    def _tell(self) -> None:
        attempt = running_attempt()
        if attempt and self.sock is not None:
            attempt.uses(self.sock)

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # urllib3's connection
        self._tell()

    def send(self, data: Any) -> None:
        self._tell()
        super().send(data)  # type: ignore[misc]

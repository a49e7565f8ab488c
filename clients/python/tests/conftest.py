"""What the tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from callers import OPEN
from server import Server

from edge_idempotency_client import SqliteStore


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes what the test has opened."""
    stores: list[SqliteStore] = []
    opening = SqliteStore.__init__

    def opened(self: SqliteStore, path: Path) -> None:
        opening(self, path)
        stores.append(self)

    monkeypatch.setattr(SqliteStore, "__init__", opened)
    yield
    for store in stores:
        store.close()
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running

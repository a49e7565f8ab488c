"""What the tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from callers import OPEN
from server import Server


@pytest.fixture(autouse=True)
def closed_callers() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running

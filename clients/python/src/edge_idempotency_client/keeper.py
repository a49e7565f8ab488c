"""What all requests of a client share: the store, and which of its requests are under way in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .errors import DamagedRecord, IdempotencyError, KeyReused, StoreError
from .kept_request import KeptRequest
from .store import Store

_T = TypeVar("_T")

# How many calls of this process send the request of a key, by the place of the store and the key. Several clients may share a store.
_under_way: Counter[tuple[Hashable, str]] = Counter()
_lock = threading.Lock()


class Keeper:
    """Reads and writes the store of a client. Every method raises StoreError if the store fails, whatever a store of the caller raises."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def under_way(self, key: str) -> Iterator[None]:
        """A call sends the request of this key. Several calls can do so at once: the API gives each the same answer."""
        with _lock:
            _under_way[self._store.place, key] += 1
        try:
            yield
        finally:
            self._end(key)

    @contextmanager
    def claimed(self, key: str) -> Iterator[bool]:
        """Like `under_way`, but only if no other call sends the request of this key: else the result is False."""
        with _lock:
            free = _under_way[self._store.place, key] == 0
            if free:
                _under_way[self._store.place, key] = 1
        try:
            yield free
        finally:
            if free:
                self._end(key)

    def keep(self, request: KeptRequest) -> KeptRequest:
        """Keeps the request. The result has the time at which it was kept first. Raises KeyReused if the key belongs to another request."""
        earlier = _asked(lambda: self._store.put(request))
        if earlier is None:
            return request
        if not earlier.same_as(request):
            raise KeyReused(request.key)
        return earlier

    def get(self, key: str) -> KeptRequest | None:
        """The request of a key, or None. Raises DamagedRecord."""
        return _asked(lambda: self._store.get(key))

    def forget(self, key: str) -> bool:
        """Removes the record of a key. False if there was none."""
        return _asked(lambda: self._store.remove(key))

    def records(self) -> list[KeptRequest | DamagedRecord]:
        """All records, the oldest first."""
        return _asked(self._store.records)

    def _end(self, key: str) -> None:
        with _lock:
            _under_way[self._store.place, key] -= 1
            if not _under_way[self._store.place, key]:
                del _under_way[self._store.place, key]


def _asked(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except IdempotencyError:
        raise
    except Exception as error:
        raise StoreError(f"the store failed: {type(error).__name__}: {error}") from error

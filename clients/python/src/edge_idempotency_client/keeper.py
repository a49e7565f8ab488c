"""What all requests of a client share: the owner, the store, and which of its requests are under way in this process."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .errors import DamagedRecord, IdempotencyError, KeyReused, StoreError
from .kept_request import KeptRequest, is_owner
from .store import Store

_T = TypeVar("_T")

log = logging.getLogger("edge_idempotency_client")

# How many calls of this process send the request of a key, by the place of the store, the owner and the key. Several clients may share a
# store.
_under_way: Counter[tuple[Hashable, str, str]] = Counter()
_lock = threading.Lock()


def _after_fork_in_child() -> None:
    # The threads that send these requests are in the parent.
    _under_way.clear()
    if _lock.locked():
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork_in_child)


class Keeper:
    """Reads and writes the store of a client, for its owner. Every method raises StoreError if the store fails, whatever a store of the caller
    raises."""

    def __init__(self, store: Store, owner: str) -> None:
        if not is_owner(owner):
            raise ValueError(f"owner is {owner!r}: give a text that is not blank, who makes the requests of this client")
        self._store = store
        self.owner = owner

    @contextmanager
    def under_way(self, key: str) -> Iterator[None]:
        """A call sends the request of this key. Several calls can do so at once: the API gives each the same answer."""
        with _lock:
            _under_way[self._place(key)] += 1
        try:
            yield
        finally:
            self._end(key)

    def claim(self, key: str) -> bool:
        """Like `under_way`, but only if no other call sends the request of this key: else the result is False. `release` ends it."""
        with _lock:
            free = _under_way[self._place(key)] == 0
            if free:
                _under_way[self._place(key)] = 1
        return free

    def release(self, key: str) -> None:
        """Ends `claim`."""
        self._end(key)

    def keep(self, request: KeptRequest) -> KeptRequest:
        """Keeps the request. The result has the time at which it was kept first. Raises KeyReused if the key belongs to another request."""
        try:
            earlier = _asked(lambda: self._store.put(request))
        except DamagedRecord:
            raise
        except StoreError as error:
            # The store may have kept it nevertheless, but the caller believes that it is not sent.
            if self._is_left(request):
                told = f"{error}. Nothing was sent, but the request may be kept: forget({request.key!r}) removes it."
                raise StoreError(told, request.key) from error.__cause__ or error
            raise
        if earlier is None:
            return request
        if not earlier.same_as(request):
            raise KeyReused(request.key)
        return earlier

    def _is_left(self, request: KeptRequest) -> bool:
        """Removes what a failed put has left, but no earlier request of the same key. True if it may still be there."""
        try:
            left = self._store.get(self.owner, request.key)
            if left is not None and left.same_as(request) and left.kept_at == request.kept_at:
                self._store.remove(self.owner, request.key)
                left = None
            return left is not None
        except Exception:
            return True

    def get(self, key: str) -> KeptRequest | None:
        """The request of a key, or None. Raises DamagedRecord."""
        return _asked(lambda: self._store.get(self.owner, key))

    def forget(self, key: str) -> bool:
        """Removes the record of a key. False if there was none."""
        return self._remove(self.owner, key)

    def forget_owner(self, owner: str) -> None:
        """Removes all records of an owner."""
        for record in self.records():
            if record.owner == owner:
                self._remove(owner, record.key or "")

    def answered(self, key: str) -> None:
        """Removes a request that has its answer. The caller gets the answer even if that fails: to send the request again gives the same one."""
        try:
            self.forget(key)
        except IdempotencyError as error:
            log.warning("the request with the key %s has its answer, and stays in the store: %s", key, error)

    def records(self) -> list[KeptRequest | DamagedRecord]:
        """All records, of all owners, the oldest first."""
        return _asked(self._store.records)

    def _remove(self, owner: str, key: str) -> bool:
        return _asked(lambda: self._store.remove(owner, key))

    def _place(self, key: str) -> tuple[Hashable, str, str]:
        return (self._store.place, self.owner, key)

    def _end(self, key: str) -> None:
        with _lock:
            _under_way[self._place(key)] -= 1
            # It is less than 0 where a call goes on in the child of a fork.
            if _under_way[self._place(key)] <= 0:
                del _under_way[self._place(key)]


def _asked(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except IdempotencyError:
        raise
    except Exception as error:
        raise StoreError(f"the store failed: {type(error).__name__}: {error}") from error

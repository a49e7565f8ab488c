"""What `resume_pending` gives for each request of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .errors import OtherOwner
from .keeper import Keeper
from .kept_request import KeptRequest

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Resumed(Generic[R_co]):
    """The result for one kept request: either `response` or `error` is there.

    Attributes:
        key: The idempotency key.
        request: The request as it was kept, or None if its record is damaged.
        response: The final answer, whatever its status, with its information (`idempotency_of`).
        error: Why there is no final answer: NoAnswer, Expired, OtherOwner, Aborted, DamagedRecord, or another error. The request stays in the store.
    """

    key: str
    request: KeptRequest | None = None
    response: R_co | None = None
    error: Exception | None = None


class Resumption:
    """The requests that one call of `resume_pending` sends, so that no other call of this process sends them.

    A request with an answer stays in the store, and under way, until the caller has been told: else an error of `each` or Ctrl-C would lose it.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._answered: set[str] = set()

    def others(self, record: KeptRequest) -> Resumed[Any] | None:
        """The result of a request that belongs to another owner; None if it is this client's."""
        if record.owner == self._keeper.owner:
            return None
        return Resumed(record.key, record, error=OtherOwner(record.key, record.owner, self._keeper.owner, 0, kept=True))

    @contextmanager
    def claimed(self, key: str) -> Iterator[bool]:
        """Whether no other call sends the request of this key. Inside the block, `answered` says that it has its answer."""
        free = self._keeper.claim(key)
        try:
            yield free
        finally:
            if free and key not in self._answered:
                self._keeper.release(key)

    def answered(self, key: str) -> None:
        """The request has its answer, which the caller does not know yet."""
        self._answered.add(key)

    def told(self, result: Resumed[Any]) -> None:
        """The caller has the result: removes the request if that is an answer."""
        # Another owner's request may have the same key.
        if result.response is not None and result.key in self._answered:
            self._keeper.answered(result.key)
            self._answered.discard(result.key)
            self._keeper.release(result.key)

    def close(self) -> None:
        """Ends the call. Requests with an answer that the caller was not told stay in the store."""
        while self._answered:
            self._keeper.release(self._answered.pop())

"""What `resume_pending` gives for each request of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .kept_request import KeptRequest

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Resumed(Generic[R_co]):
    """The result for one kept request: either `response` or `error` is there.

    Attributes:
        key: The idempotency key.
        request: The request as it was kept, or None if its record is damaged.
        response: The final answer, whatever its status, with its information (`idempotency_of`).
        error: Why there is no final answer: NoAnswer, Expired, Aborted, DamagedRecord, or another error. The request stays in the store.
    """

    key: str
    request: KeptRequest | None = None
    response: R_co | None = None
    error: Exception | None = None

"""The options of a client, with their defaults and bounds."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How a client retries. All times are seconds. Raises ValueError, with the name of the option, if one is out of its bounds.

    Attributes:
        methods: The methods whose requests get a key. A request that has a key already is treated in the same way, whatever its method; all
            others are sent as if this package were not there.
        attempts: How many requests are sent at most for one intent; requests to `Location` count. 1 or more.
        budget: No request begins later than this after the first one.
        attempt_timeout: How long one attempt may take, from its start to the last byte of the answer.
        base: The bound of the random wait before the first retry; it doubles with each further one.
        cap: The highest bound of the random wait.
        max_retry_after: The longest wait that `Retry-After` can ask for.
        expires_after: A request that was kept longer ago is not sent any more. The API keeps results for 24 hours, if it does not say otherwise.
        secret_headers: Further headers that are never kept, besides `Authorization`, `Cookie` and `Proxy-Authorization`.
        attempt_header: Whether each request has its number in the header `X-Retry-Attempt`.
    """

    methods: frozenset[str] = frozenset({"POST", "PATCH"})
    attempts: int = 10
    budget: float = 600.0
    attempt_timeout: float = 30.0
    base: float = 0.5
    cap: float = 30.0
    max_retry_after: float = 60.0
    expires_after: float = 23 * 3600.0
    secret_headers: frozenset[str] = frozenset()
    attempt_header: bool = True

    def takes(self, method: str, headers: Container[str]) -> bool:
        """Whether a request gets a key, or has one."""
        return method.upper() in self.methods or "idempotency-key" in headers

    def __post_init__(self) -> None:
        for name in ("methods", "secret_headers"):
            if isinstance(value := getattr(self, name), str):
                raise ValueError(f"{name} is {value!r}: give a set of names, such as {{{value!r}}}")
        object.__setattr__(self, "methods", frozenset(method.upper() for method in self.methods))
        object.__setattr__(self, "secret_headers", frozenset(name.lower() for name in self.secret_headers))
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}: it has to be 1 or more")
        for name in ("budget", "attempt_timeout", "base", "cap", "max_retry_after", "expires_after"):
            seconds = getattr(self, name)
            least = "more than 0" if name in ("attempt_timeout", "expires_after") else "0 or more"
            if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and least == "more than 0"):
                raise ValueError(f"{name} is {seconds}: it has to be a number of seconds, {least}")

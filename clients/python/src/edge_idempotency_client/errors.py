"""The errors of this package. Each has the key of its request, so that the caller can look for it or forget it."""

from __future__ import annotations


class IdempotencyError(Exception):
    """The base of all errors of this package.

    Attributes:
        key: The idempotency key of the request, or None if the request has none.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class NoAnswer(IdempotencyError):
    """The budget is used up, and there is no final answer. The request stays in the store.

    Attributes:
        attempts: How many requests were sent.
        last: What came of the last request, for people to read.
        limit: What ended the call: `attempts` or `budget`, for people to read.
    """

    def __init__(self, key: str, attempts: int, last: str, limit: str) -> None:
        times = f"{attempts} attempt{'' if attempts == 1 else 's'}"
        message = (
            f"no final answer to the request with the key {key} after {times} ({limit}); the last one: {last}. "
            "Nobody knows whether it ran. It is kept: resume_pending() sends it again, forget(key) removes it."
        )
        super().__init__(message, key)
        self.attempts = attempts
        self.last = last
        self.limit = limit


class Expired(IdempotencyError):
    """The request was kept longer ago than `expires_after`, or more than 5 minutes in the future, which means that the clock was set.

    It is not sent, because it would run again. It stays in the store.

    Attributes:
        attempts: How many requests this call had sent before.
    """

    def __init__(self, key: str, kept_for: float, expires_after: float, attempts: int) -> None:
        if kept_for < 0:
            when = f"{-kept_for:.0f} s in the future, because the clock of this machine was set: nobody knows how old the request is"
        else:
            when = f"{kept_for:.0f} s ago, which is more than expires_after ({expires_after:.0f} s)"
        message = (
            f"the request with the key {key} was kept first {when}: the server may no longer have its result, and would run it again. "
            "Find out whether it ran, then call forget(key)."
        )
        super().__init__(message, key)
        self.attempts = attempts


class Aborted(IdempotencyError):
    """The caller ended the request. It stays in the store, because nobody knows whether it ran.

    Attributes:
        attempts: How many requests this call had sent before. If there are none, nothing was sent, and the request is kept if the abort came late.
    """

    def __init__(self, key: str, attempts: int) -> None:
        kept = "It is kept: resume_pending() sends it again, forget(key) removes it." if attempts else "This call has not sent it."
        super().__init__(f"the request with the key {key} was aborted after {attempts} attempt{'' if attempts == 1 else 's'}. {kept}", key)
        self.attempts = attempts


class InvalidRequest(IdempotencyError):
    """The request cannot be sent safely; the message says what to change. Nothing was sent or kept."""


class KeyReused(IdempotencyError):
    """The store has another request under the same key. Nothing was sent."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"another request with the key {key} is kept, with another method, URL or body. Nothing was sent. Take a new key for a new request; "
            "resume_pending() sends the one that is kept.",
            key,
        )


class CredentialsError(IdempotencyError):
    """The function `credentials` failed; its own error is the cause (`__cause__`).

    Attributes:
        attempts: How many requests were sent. If there are any, the request stays in the store; if not, it was not kept by this call.
    """

    def __init__(self, key: str, attempts: int, cause: Exception) -> None:
        kept = "The request is kept: resume_pending() sends it again." if attempts else "Nothing was sent."
        super().__init__(f"credentials failed for the request with the key {key}: {type(cause).__name__}: {cause}. {kept}", key)
        self.attempts = attempts


class OtherOwner(IdempotencyError):
    """The request belongs to another owner than the client, or than the credentials: the user has changed. It was not sent (again).

    It stays in the store for a client of its owner, unless the credentials were of another owner before the first attempt.

    Attributes:
        owner: Whose request it is.
        attempts: How many requests this call had sent before.
    """

    def __init__(self, key: str, owner: str, other: str, attempts: int, kept: bool) -> None:
        end = (
            f"It is kept: resume_pending() of a client of {owner} sends it, forget_owner removes it."
            if kept
            else "This call has not sent or kept it."
        )
        super().__init__(f"the request with the key {key} is of {owner}, and this is {other}. {end}", key)
        self.owner = owner
        self.attempts = attempts


class StoreError(IdempotencyError):
    """The store failed; its own error is the cause (`__cause__`). If it could not keep a request, nothing was sent."""


class DamagedRecord(StoreError):
    """A record of the store cannot be read. It is neither sent nor deleted: `forget(key)` of a client of its owner removes it.

    Attributes:
        owner: Whose it is.
    """

    def __init__(self, owner: str, key: str, reason: str) -> None:
        super().__init__(f"the record of the key {key} is damaged: {reason}. It is not sent, and stays until forget(key) removes it.", key)
        self.owner = owner
        self.reason = reason

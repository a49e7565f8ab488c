"""The way of a request from the caller to its final answer.

It is written once, for blocking and for asynchronous clients: `Platform` does what the two do differently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from .answers import Answer
from .errors import Aborted, CredentialsError, IdempotencyError, OtherOwner
from .exchange import Clock, Exchange, Finish, Renew, Stop
from .information import IdempotencyInfo, information
from .keeper import Keeper
from .kept_request import ATTEMPT_HEADER, KEY_HEADER, Headers, KeptRequest, is_owner, without_secrets
from .options import Options

_T = TypeVar("_T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

log = logging.getLogger("edge_idempotency_client")


# What the caller's function `credentials` returns: who is logged in now, and the headers that prove it.
Given = tuple[str, Mapping[str, str]]


class AttemptFailed(Exception):
    """An attempt has no whole answer: it was refused, reset, cut off, or took too long."""


class AbortRequested(Exception):
    """The caller has aborted; `Aborted` is what it gets."""


@dataclass(frozen=True)
class Outgoing:
    """One request, as it is sent. `timeout` is the time that it may take, in seconds."""

    method: str
    url: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    timeout: float


@dataclass(frozen=True)
class Reply(Generic[R_co]):
    """An answer that has arrived whole, as the core reads it, and the HTTP library's response. `decoded` gives the decoded body."""

    answer: Answer
    decoded: Callable[[], bytes]
    response: R_co


class Platform(Protocol[R_co]):
    """What a blocking and an asynchronous client do differently."""

    async def call(self, work: Callable[[], _T]) -> _T:
        """Runs `work`, which may block for as long as a file takes."""

    async def credentials(self) -> Given:
        """Asks the caller for the credentials, and raises what the caller's function raises. Raises TimeoutError."""

    async def sleep(self, seconds: float) -> None:
        """Waits. Raises AbortRequested, also if there is nothing to wait for."""

    async def attempt(self, outgoing: Outgoing) -> Reply[R_co]:
        """Sends one request. Raises AttemptFailed or AbortRequested; another error ends the whole call."""


@dataclass(frozen=True)
class Intent:
    """What the caller wants to have sent: `headers` has credentials, too. `resumed`: the request is one of the store."""

    request: KeptRequest
    headers: Headers = field(repr=False)
    resumed: bool = False


async def send(intent: Intent, keeper: Keeper, options: Options, clock: Clock, platform: Platform[R]) -> tuple[R, IdempotencyInfo]:
    """Keeps the request, sends it until there is a final answer, and removes it from the store. Raises an IdempotencyError.

    A resumed request is in the store already, and stays there: `Resumption` removes it when the caller has its answer.
    """
    key = intent.request.key
    sent = 0

    async def ask() -> dict[str, str]:
        try:
            owner, given = _whose(await platform.credentials())
            if owner != intent.request.owner:
                raise OtherOwner(key, intent.request.owner, owner, sent, kept=intent.resumed or sent > 0)
            if not all(isinstance(text, str) for pair in given.items() for text in pair):
                raise TypeError("its headers have to be a mapping of texts, names to values")
            if any(character in text for pair in given.items() for text in pair for character in "\r\n\0"):
                raise ValueError("it returned a header with a line break")
            return dict(given)
        except (IdempotencyError, AbortRequested):
            raise
        except Exception as error:
            raise CredentialsError(key, sent, error) from error

    try:
        await platform.sleep(0)
        request, given = intent.request, None
        if not intent.resumed:
            # This comes before the request is kept: a call without credentials sends nothing and keeps nothing.
            given = await ask()
            request = replace(request, headers=without_secrets(intent.headers, options.secret_headers | given.keys()))
            kept = request
            request = await platform.call(lambda: keeper.keep(kept))
        exchange = Exchange(request, options, clock)
        operation_id: str | None = None
        cause: Exception | None = None
        step = exchange.first()
        while True:
            if isinstance(step, Stop):
                raise step.error from cause
            await platform.sleep(step.wait)
            if given is None:
                given = await ask()
            if expired := exchange.expired(sent):
                raise expired from cause
            sent = step.number
            try:
                reply = await platform.attempt(_outgoing(intent, step.location, given, step.number, options))
            except AttemptFailed as failure:
                log.debug("key %s, attempt %d: %s", key, sent, failure)
                step, cause, given = exchange.unanswered(str(failure)), failure, None
                continue
            log.debug("key %s, attempt %d: %d", key, sent, reply.answer.status)
            cause, operation_id = None, reply.answer.headers.get("x-operation-id") or operation_id
            following = exchange.answered(reply.answer)
            if isinstance(following, Renew):
                fresh = await ask()
                if fresh != given:
                    step, given = exchange.renewed(), fresh
                    continue
                following = Finish()
            if isinstance(following, Finish):
                if not intent.resumed:
                    await platform.call(lambda: keeper.answered(key))
                return reply.response, information(key, sent, reply.answer, reply.decoded, operation_id)
            step, given = following, None
    except AbortRequested:
        raise Aborted(key, sent) from None


def _whose(given: object) -> Given:
    if isinstance(given, tuple) and len(given) == 2 and is_owner(given[0]):
        return given
    raise TypeError("it has to return (owner, headers), and its owner is not a text or is blank")


def _outgoing(intent: Intent, location: str | None, given: Mapping[str, str], number: int, options: Options) -> Outgoing:
    names = {name.lower() for name in given}
    headers = [(name, value) for name, value in intent.headers if name.lower() not in names]
    if location is not None:
        # They say something about the body, or are conditions for the operation.
        headers = [(name, value) for name, value in headers if not name.lower().startswith(("content-", "if-")) and name.lower() != "range"]
    headers += [(name, value) for name, value in given.items() if name.lower() != KEY_HEADER.lower()]
    if options.attempt_header:
        headers.append((ATTEMPT_HEADER, str(number)))
    request = intent.request
    if location is None:
        headers.append((KEY_HEADER, request.key))
        return Outgoing(request.method, request.url, tuple(headers), request.body, options.attempt_timeout)
    # The request for an operation has neither a key nor a body.
    return Outgoing("GET", location, tuple(headers), b"", options.attempt_timeout)

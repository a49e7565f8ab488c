"""The blocking client, without an HTTP library: waits, attempts in threads of their own, and the requests of the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Generic, TypeVar

from .abort import Abort, current_abort
from .attempt_thread import AttemptThread
from .errors import DamagedRecord
from .exchange import Clock
from .information import IdempotencyInfo
from .keeper import Keeper
from .kept_request import KeptRequest
from .options import Options
from .resuming import Resumed, Resumption
from .sending import AbortRequested, AttemptFailed, Given, Intent, Outgoing, Reply, send
from .store import Store

_T = TypeVar("_T")
R = TypeVar("R")
# The response that the caller gets, with its information.
S = TypeVar("S")

Credentials = Callable[[], Given]
# A function that sends one request in the thread of the attempt.
Transmit = Callable[[Outgoing, AttemptThread[Reply[R]]], Reply[R]]


class BlockingSender(Generic[R]):
    """Sends intents and waits for them. `R` is the response of an HTTP library; several threads can use one client."""

    def __init__(self, store: Store, owner: str, options: Options, credentials: Credentials, clock: Clock) -> None:
        self.options = options
        self.keeper = Keeper(store, owner)
        self._credentials = credentials
        self._clock = clock

    def send(self, intent: Intent, transmit: Transmit[R]) -> tuple[R, IdempotencyInfo]:
        """The final answer and its information. Raises an IdempotencyError, or Aborted inside the block of an Abort."""
        with self.keeper.under_way(intent.request.key):
            return self._send(intent, transmit)

    def resume(self, finish: Callable[[KeptRequest], S], each: Callable[[Resumed[S]], None] | None, concurrency: int) -> list[Resumed[S]]:
        """Calls `finish` for each kept request of this owner that is not under way in this process, `concurrency` at a time. See `resume_pending`."""
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}: it has to be 1 or more")
        outer, inner = current_abort(), Abort()
        results: list[Resumed[S]] = []
        resumption = Resumption(self.keeper)

        def one(record: KeptRequest | DamagedRecord) -> Resumed[S] | None:
            if isinstance(record, DamagedRecord):
                return Resumed(record.key or "", error=record)
            if others := resumption.others(record):
                return others
            try:
                with inner, resumption.claimed(record.key) as free:
                    # Another call may have got its answer after the records were listed.
                    request = self.keeper.get(record.key) if free else None
                    if not request:
                        return None
                    response = finish(request)
                    resumption.answered(record.key)
                    return Resumed(record.key, request, response=response)
            except Exception as error:
                return Resumed(record.key, record, error=error)

        end = outer.listen(inner.abort) if outer else None
        try:
            with ThreadPoolExecutor(concurrency, "edge-idempotency-resume") as pool:
                try:
                    for future in as_completed([pool.submit(one, record) for record in self.keeper.records()]):
                        if result := future.result():
                            results.append(result)
                            if each:
                                each(result)
                                resumption.told(result)
                except BaseException:
                    # The pool waits for its threads, also after Ctrl-C, so they have to end.
                    inner.abort()
                    raise
            for result in results:
                resumption.told(result)
            return results
        finally:
            if end:
                end()
            resumption.close()

    def resumed(self, request: KeptRequest, transmit: Transmit[R]) -> tuple[R, IdempotencyInfo]:
        """The final answer to a request of the store, which the caller has claimed."""
        return self._send(Intent(request, request.headers, resumed=True), transmit)

    def _send(self, intent: Intent, transmit: Transmit[R]) -> tuple[R, IdempotencyInfo]:
        platform = _BlockingPlatform(transmit, self._credentials, self.options.attempt_timeout, current_abort())
        return _run(send(intent, self.keeper, self.options, self._clock, platform))


class _BlockingPlatform(Generic[R]):
    def __init__(self, transmit: Transmit[R], credentials: Credentials, timeout: float, abort: Abort | None) -> None:
        self._transmit = transmit
        self._credentials = credentials
        self._timeout = timeout
        self._abort = abort

    async def call(self, work: Callable[[], _T]) -> _T:
        return work()

    async def credentials(self) -> Given:
        try:
            return AttemptThread[Given](lambda running: self._credentials()).run(self._timeout, self._abort)
        except AttemptFailed:
            raise TimeoutError(f"it has not returned within {self._timeout:g} s (attempt_timeout)") from None

    async def sleep(self, seconds: float) -> None:
        if self._abort is None:
            time.sleep(seconds)  # noqa: ASYNC251  # no event loop runs here
        elif self._abort.wait(seconds):
            raise AbortRequested

    async def attempt(self, outgoing: Outgoing) -> Reply[R]:
        attempt = AttemptThread[Reply[R]](lambda running: self._transmit(outgoing, running))
        return attempt.run(outgoing.timeout, self._abort)


def _run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    # The methods of the blocking platform never suspend, so that the first step is the last one.
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    raise AssertionError("a blocking platform has suspended")

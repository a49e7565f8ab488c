"""The asynchronous client, without an HTTP library. Cancelling its task ends the wait and the attempt at once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from .errors import DamagedRecord
from .exchange import Clock
from .information import IdempotencyInfo
from .keeper import Keeper
from .kept_request import KeptRequest
from .options import Options
from .resuming import Resumed, Resumption
from .sending import AttemptFailed, Given, Intent, Outgoing, Reply, send
from .store import Store

_T = TypeVar("_T")
R = TypeVar("R")
# The response that the caller gets, with its information.
S = TypeVar("S")

AsyncCredentials = Callable[[], Given | Awaitable[Given]]
# A function that sends one request, without a limit of its own.
AsyncTransmit = Callable[[Outgoing], Awaitable[Reply[R]]]


class AsyncSender(Generic[R]):
    """Sends intents in asyncio or trio. `R` is the response of an HTTP library."""

    def __init__(self, store: Store, owner: str, options: Options, credentials: AsyncCredentials, clock: Clock) -> None:
        self.options = options
        self.keeper = Keeper(store, owner)
        self._credentials = credentials
        self._clock = clock

    async def send(self, intent: Intent, transmit: AsyncTransmit[R]) -> tuple[R, IdempotencyInfo]:
        """The final answer and its information. Raises an IdempotencyError."""
        with self.keeper.under_way(intent.request.key):
            return await self._send(intent, transmit)

    async def resume(
        self, finish: Callable[[KeptRequest], Awaitable[S]], each: Callable[[Resumed[S]], None] | None, concurrency: int
    ) -> list[Resumed[S]]:
        """Calls `finish` for each kept request of this owner that is not under way in this process, `concurrency` at a time. See `resume_pending`."""
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}: it has to be 1 or more")
        results: list[Resumed[S]] = []
        limit = anyio.Semaphore(concurrency)
        errors: list[Exception] = []
        resumption = Resumption(self.keeper)

        async def one(record: KeptRequest) -> Resumed[S] | None:
            if others := resumption.others(record):
                return others
            try:
                with resumption.claimed(record.key) as free:
                    # Another call may have got its answer after the records were listed.
                    request = await anyio.to_thread.run_sync(self.keeper.get, record.key) if free else None
                    if not request:
                        return None
                    response = await finish(request)
                    resumption.answered(record.key)
                    return Resumed(record.key, request, response=response)
            except Exception as error:
                return Resumed(record.key, record, error=error)

        async def tell(record: KeptRequest | DamagedRecord) -> None:
            async with limit:
                result = Resumed[S](record.key or "", error=record) if isinstance(record, DamagedRecord) else await one(record)
            if not result:
                return
            results.append(result)
            if not each:
                return
            try:
                each(result)
                # The caller knows it, whatever has ended the call meanwhile.
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(resumption.told, result)
            except Exception as error:
                # It is raised below, because a task group would put it into an ExceptionGroup.
                errors.append(error)
                tasks.cancel_scope.cancel()

        records = await anyio.to_thread.run_sync(self.keeper.records)
        try:
            async with anyio.create_task_group() as tasks:
                for record in records:
                    tasks.start_soon(tell, record)
            if errors:
                raise errors[0]
            # A cancellation between two of them would lose the list.
            with anyio.CancelScope(shield=True):
                for result in results:
                    await anyio.to_thread.run_sync(resumption.told, result)
            return results
        finally:
            resumption.close()

    async def resumed(self, request: KeptRequest, transmit: AsyncTransmit[R]) -> tuple[R, IdempotencyInfo]:
        """The final answer to a request of the store, which the caller has claimed."""
        return await self._send(Intent(request, request.headers, resumed=True), transmit)

    async def _send(self, intent: Intent, transmit: AsyncTransmit[R]) -> tuple[R, IdempotencyInfo]:
        return await send(intent, self.keeper, self.options, self._clock, _AsyncPlatform(transmit, self._credentials, self.options.attempt_timeout))


class _AsyncPlatform(Generic[R]):
    def __init__(self, transmit: AsyncTransmit[R], credentials: AsyncCredentials, timeout: float) -> None:
        self._transmit = transmit
        self._credentials = credentials
        self._timeout = timeout

    async def call(self, work: Callable[[], _T]) -> _T:
        return await anyio.to_thread.run_sync(work)

    async def credentials(self) -> Given:
        given = self._credentials()
        if not inspect.isawaitable(given):
            return given
        with anyio.move_on_after(self._timeout):
            return await given
        raise TimeoutError(f"it has not returned within {self._timeout:g} s (attempt_timeout)")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def attempt(self, outgoing: Outgoing) -> Reply[R]:
        with anyio.move_on_after(outgoing.timeout):
            return await self._transmit(outgoing)
        raise AttemptFailed(f"no whole answer within {outgoing.timeout:g} s")

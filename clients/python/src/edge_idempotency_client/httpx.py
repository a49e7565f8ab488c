"""Transports for `httpx.Client` and `httpx.AsyncClient`, which retry until there is an answer. They need the extra `httpx`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from .answers import Answer
from .asynchronous import AsyncCredentials, AsyncSender
from .attempt_thread import AttemptThread
from .blocking import BlockingSender, Credentials
from .errors import DamagedRecord, InvalidRequest, NoAnswer
from .exchange import Clock
from .httpx_sockets import watch
from .information import IdempotencyInfo
from .kept_request import KEY_HEADER, Headers, KeptRequest, check_url, key_of, new_key, repeatable
from .options import Options
from .resuming import Resumed
from .sending import AttemptFailed, Intent, Outgoing, Reply
from .store import Store

__all__ = ["AsyncIdempotentTransport", "FinalHttpxResponse", "HttpxNoAnswer", "IdempotentTransport"]


class HttpxNoAnswer(NoAnswer, httpx.TransportError):
    """NoAnswer of these transports. It is an `httpx.TransportError` as well, so that code which handles those handles it."""


class FinalHttpxResponse(httpx.Response):
    """A final answer. A redirect is final, too: httpx does not follow it, whatever `follow_redirects` says."""

    @property
    def has_redirect_location(self) -> bool:
        return False


class IdempotentTransport(httpx.BaseTransport):
    """Sends each request with one of `options.methods`, or with a key, under one key until it has a final answer; other requests pass as they are.

    The response has an `IdempotencyInfo` in `response.extensions["idempotency"]`. The key is in the header `Idempotency-Key` of the request that
    the caller gave, also after an error. httpx's own timeouts do not hold for these requests; `options.attempt_timeout` does.

    A request raises HttpxNoAnswer, Expired, Aborted, InvalidRequest, KeyReused, OtherOwner, CredentialsError, StoreError or DamagedRecord.

    Args:
        store: Where requests are kept until they have their final answer, for example a SqliteStore. The caller closes it.
        owner: Who makes the requests of this client: all by which the API tells its callers apart, such as tenant, project and subject. It is
            kept with each request, and the client sends requests of this owner only.
        credentials: Returns who is logged in now, and the headers that prove it: `(owner, {"Authorization": ...})`. It is called before each
            attempt. If the owner is another one, nothing is sent. The headers are never kept.
        options: How it retries.
        transport: What sends the requests; by default a new `httpx.HTTPTransport()`. Proxies and certificates are set there.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        credentials: Credentials,
        options: Options | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = transport or httpx.HTTPTransport()
        self._sender = BlockingSender[_HttpxReceived](store, owner, options or Options(), credentials, Clock())
        watch(self._transport)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self._sender.options.takes(request.method, request.headers):
            return self._transport.handle_request(request)
        try:
            body = request.read()
        except httpx.StreamError as error:
            raise InvalidRequest(f"the body cannot be read: {error}") from error
        intent = _intent(request, self._sender.keeper.owner, body)
        try:
            received, info = self._sender.send(intent, self._transmit(request.extensions))
        except NoAnswer as error:
            raise _no_answer(error) from error.__cause__
        return received.final(request, info)

    def resume_pending(
        self, *, concurrency: int = 16, each: Callable[[Resumed[httpx.Response]], None] | None = None
    ) -> list[Resumed[httpx.Response]]:
        """Sends the kept requests of this owner that are not under way in this process, each with its key, and waits for all of them.

        A request of another owner is not sent, and stays: its error is OtherOwner.

        Args:
            concurrency: How many are sent at a time.
            each: Is called with each result as soon as it is there, in the thread of the caller. An error that it raises ends
                the call, and the answers that it was not told stay in the store.

        Returns:
            The result of each request in the order in which they came: a response, or an error. Raises StoreError if the store cannot be read.
        """

        def finish(kept: KeptRequest) -> httpx.Response:
            try:
                received, info = self._sender.resumed(kept, self._transmit({}))
            except NoAnswer as error:
                raise _no_answer(error) from error.__cause__
            return received.read(_request(kept), info)

        return self._sender.resume(finish, each, concurrency)

    def pending(self) -> list[KeptRequest | DamagedRecord]:
        """The requests in the store, of all owners, the oldest first, with those that are under way. Raises StoreError."""
        return self._sender.keeper.records()

    def forget(self, key: str) -> bool:
        """Removes a request of this owner from the store; False if there is none. It does not end an attempt that is under way. Raises StoreError."""
        return self._sender.keeper.forget(key)

    def forget_owner(self, owner: str) -> None:
        """Removes all requests of an owner from the store, for the log-out. End those that are under way before. Raises StoreError."""
        self._sender.keeper.forget_owner(owner)

    def close(self) -> None:
        self._transport.close()

    def _transmit(self, extensions: dict[str, Any]) -> Callable[[Outgoing, AttemptThread[Reply[_HttpxReceived]]], Reply[_HttpxReceived]]:
        def transmit(outgoing: Outgoing, running: AttemptThread[Reply[_HttpxReceived]]) -> Reply[_HttpxReceived]:
            try:
                response = self._transport.handle_request(_attempt(outgoing, extensions))
                try:
                    pieces = []
                    assert isinstance(response.stream, httpx.SyncByteStream)
                    for piece in response.stream:
                        running.check()
                        pieces.append(piece)
                finally:
                    response.close()
            except httpx.TransportError as error:
                raise _failed(error) from error
            return _reply(response, b"".join(pieces))

        return transmit


class AsyncIdempotentTransport(httpx.AsyncBaseTransport):
    """The same as IdempotentTransport, for `httpx.AsyncClient` in asyncio or trio.

    The caller ends a request by cancelling its task. The request then stays in the store, and its key is in the header `Idempotency-Key` of
    the request that the caller gave. `credentials` may be a coroutine function. Files are written in threads.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        credentials: AsyncCredentials,
        options: Options | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._sender = AsyncSender[_HttpxReceived](store, owner, options or Options(), credentials, Clock())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self._sender.options.takes(request.method, request.headers):
            return await self._transport.handle_async_request(request)
        try:
            body = await request.aread()
        except httpx.StreamError as error:
            raise InvalidRequest(f"the body cannot be read: {error}") from error
        intent = _intent(request, self._sender.keeper.owner, body)
        try:
            received, info = await self._sender.send(intent, lambda outgoing: self._transmit(outgoing, request.extensions))
        except NoAnswer as error:
            raise _no_answer(error) from error.__cause__
        return received.final(request, info)

    async def resume_pending(
        self, *, concurrency: int = 16, each: Callable[[Resumed[httpx.Response]], None] | None = None
    ) -> list[Resumed[httpx.Response]]:
        """Sends the kept requests of this owner that are not under way in this process, each with its key, and waits for all of them.

        A request of another owner is not sent, and stays: its error is OtherOwner.

        Args:
            concurrency: How many are sent at a time.
            each: Is called with each result as soon as it is there. An error that it raises ends
                the call, and the answers that it was not told stay in the store.

        Returns:
            The result of each request in the order in which they came: a response, or an error. Raises StoreError if the store cannot be read.
        """

        async def finish(kept: KeptRequest) -> httpx.Response:
            try:
                received, info = await self._sender.resumed(kept, lambda outgoing: self._transmit(outgoing, {}))
            except NoAnswer as error:
                raise _no_answer(error) from error.__cause__
            return received.read(_request(kept), info)

        return await self._sender.resume(finish, each, concurrency)

    def pending(self) -> list[KeptRequest | DamagedRecord]:
        """The requests in the store, of all owners, the oldest first, with those that are under way. It blocks while it reads. Raises StoreError."""
        return self._sender.keeper.records()

    def forget(self, key: str) -> bool:
        """Removes a request of this owner from the store; False if there is none. It does not end an attempt that is under way. Raises StoreError."""
        return self._sender.keeper.forget(key)

    def forget_owner(self, owner: str) -> None:
        """Removes all requests of an owner from the store, for the log-out. End those that are under way before. Raises StoreError."""
        self._sender.keeper.forget_owner(owner)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _transmit(self, outgoing: Outgoing, extensions: dict[str, Any]) -> Reply[_HttpxReceived]:
        try:
            attempt = _attempt(outgoing, extensions)
            attempt.stream = _AttemptBody(outgoing.body)
            response = await self._transport.handle_async_request(attempt)
            try:
                assert isinstance(response.stream, httpx.AsyncByteStream)
                body = b"".join([piece async for piece in response.stream])
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise _failed(error) from error
        return _reply(response, body)


class _AttemptBody(httpx.ByteStream):
    """The body of an attempt. httpcore iterates over it, and leaves the iterator open if the attempt is cancelled meanwhile. The iterator of
    httpx's own ByteStream is an async generator, of which trio warns then; this one is a plain object."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _AsyncPieces(iter(self))


class _AsyncPieces(AsyncIterator[bytes]):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


@dataclass(frozen=True)
class _HttpxReceived:
    """A response of the inner transport, with its body as it came."""

    response: httpx.Response
    body: bytes

    def final(self, request: httpx.Request, info: IdempotencyInfo) -> httpx.Response:
        """The response that the caller gets. It can be streamed, too."""
        told = {name: value for name, value in self.response.extensions.items() if name in ("http_version", "reason_phrase")}
        return FinalHttpxResponse(
            self.response.status_code,
            headers=self.response.headers.raw,
            stream=httpx.ByteStream(self.body),
            request=request,
            extensions={**told, "idempotency": info},
        )

    def read(self, request: httpx.Request, info: IdempotencyInfo) -> httpx.Response:
        """The same, already read, as a client would have done."""
        response = self.final(request, info)
        # A body that cannot be decoded is no reason to lose status and headers.
        with contextlib.suppress(httpx.DecodingError):
            response.read()
        return response


def _intent(request: httpx.Request, owner: str, body: bytes) -> Intent:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    key = key_of(headers) or new_key()
    url = check_url(str(request.url), key)
    # The caller finds the key there after an error, and a layer above that sends the request again sends the same key.
    request.headers[KEY_HEADER] = key
    every = repeatable(headers)
    return Intent(KeptRequest(owner, key, request.method.upper(), url, every, body, time.time()), every)


def _request(kept: KeptRequest) -> httpx.Request:
    return httpx.Request(kept.method, kept.url, headers=[*_encoded(kept.headers), (KEY_HEADER.encode(), kept.key.encode())], content=kept.body)


def _attempt(outgoing: Outgoing, extensions: dict[str, Any]) -> httpx.Request:
    # httpx's default of 5 s for each read would end attempts long before attempt_timeout.
    limits = dict.fromkeys(("connect", "read", "write", "pool"), outgoing.timeout)
    return httpx.Request(
        outgoing.method,
        outgoing.url,
        headers=_encoded(outgoing.headers),
        content=outgoing.body,
        extensions={**extensions, "timeout": limits},
    )


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    # These are the bytes that httpx had. For texts it would choose an encoding by itself.
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _reply(response: httpx.Response, body: bytes) -> Reply[_HttpxReceived]:
    def decoded() -> bytes:
        return httpx.Response(response.status_code, headers=response.headers.raw, stream=httpx.ByteStream(body)).read()

    return Reply(Answer(response.status_code, dict(response.headers.items())), decoded, _HttpxReceived(response, body))


def _failed(error: httpx.TransportError) -> AttemptFailed:
    return AttemptFailed(f"{type(error).__name__}: {error}")


def _no_answer(error: NoAnswer) -> HttpxNoAnswer:
    return HttpxNoAnswer(error.key or "", error.attempts, error.last, error.limit)

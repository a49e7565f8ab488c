"""One way for the tests to send with each of the HTTP libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import httpx
import requests

from edge_idempotency_client import IdempotencyInfo, KeptRequest, Options, Resumed, Store, idempotency_of
from edge_idempotency_client.errors import DamagedRecord
from edge_idempotency_client.httpx import AsyncIdempotentTransport, IdempotentTransport
from edge_idempotency_client.requests import IdempotentAdapter

Response = httpx.Response | requests.Response
# Who sends, unless the test says otherwise.
ANN = "acme/shop/ann"
QUICK = {"base": 0.001, "cap": 0.004, "attempt_timeout": 5.0}


OPEN: list[Caller] = []


class Caller:
    """Sends with one library. `request` returns the response, `resume` what `resume_pending` returns."""

    def __init__(self, store: Store, headers: Callable[[], Mapping[str, str]] = dict, **options: Any) -> None:
        self.store = store
        self.owner: str = options.pop("owner", ANN)
        self.credentials: Any = options.pop("credentials", lambda: (self.owner, headers()))
        self.options = Options(**{**QUICK, **options})
        self.adapter = self.make()
        OPEN.append(self)

    def close(self) -> None:
        """Closes the connections; the tests do so after each test."""

    def make(self) -> Any:
        raise NotImplementedError

    def request(self, method: str, url: str, **arguments: Any) -> Response:
        raise NotImplementedError

    def post(self, url: str, **arguments: Any) -> Response:
        return self.request("POST", url, **{"content": b'{"order":1}', **arguments})

    def resume(self, each: Callable[[Resumed[Any]], None] | None = None, concurrency: int = 16) -> list[Resumed[Any]]:
        raise NotImplementedError

    def pending(self) -> list[KeptRequest | DamagedRecord]:
        pending: list[KeptRequest | DamagedRecord] = self.adapter.pending()
        return pending

    def forget(self, key: str) -> bool:
        return bool(self.adapter.forget(key))


class HttpxCaller(Caller):
    def make(self) -> Any:
        return IdempotentTransport(self.store, owner=self.owner, credentials=self.credentials, options=self.options)

    def close(self) -> None:
        self.adapter.close()

    def request(self, method: str, url: str, **arguments: Any) -> Response:
        follow = arguments.pop("follow", False)
        with httpx.Client(transport=Unclosed(self.adapter), follow_redirects=follow) as client:
            return client.request(method, url, **arguments)

    def resume(self, each: Callable[[Resumed[Any]], None] | None = None, concurrency: int = 16) -> list[Resumed[Any]]:
        results: list[Resumed[Any]] = self.adapter.resume_pending(each=each, concurrency=concurrency)
        return results


class HttpxAsyncCaller(Caller):
    """Each call has an event loop of its own."""

    backend = "asyncio"

    def make(self) -> Any:
        return AsyncIdempotentTransport(self.store, owner=self.owner, credentials=self.credentials, options=self.options)

    def request(self, method: str, url: str, **arguments: Any) -> Response:
        follow = arguments.pop("follow", False)

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.make(), follow_redirects=follow) as client:
                return await client.request(method, url, **arguments)

        return anyio.run(send, backend=self.backend)

    def resume(self, each: Callable[[Resumed[Any]], None] | None = None, concurrency: int = 16) -> list[Resumed[Any]]:
        async def send() -> list[Resumed[httpx.Response]]:
            transport = self.make()
            try:
                results: list[Resumed[httpx.Response]] = await transport.resume_pending(each=each, concurrency=concurrency)
                return results
            finally:
                await transport.aclose()

        return anyio.run(send, backend=self.backend)


class HttpxTrioCaller(HttpxAsyncCaller):
    backend = "trio"


class RequestsCaller(Caller):
    def make(self) -> Any:
        return IdempotentAdapter(self.store, owner=self.owner, credentials=self.credentials, options=self.options, pool_maxsize=64)

    def close(self) -> None:
        self.adapter.close()

    def session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", self.adapter)
        return session

    def request(self, method: str, url: str, **arguments: Any) -> Response:
        if "content" in arguments:
            arguments["data"] = arguments.pop("content")
        follow = arguments.pop("follow", False)
        return self.session().request(method, url, allow_redirects=follow, **arguments)

    def resume(self, each: Callable[[Resumed[Any]], None] | None = None, concurrency: int = 16) -> list[Resumed[Any]]:
        results: list[Resumed[Any]] = self.adapter.resume_pending(self.session(), each=each, concurrency=concurrency)
        return results


class Unclosed(httpx.BaseTransport):
    """Keeps the transport open when the client is closed."""

    def __init__(self, transport: httpx.BaseTransport) -> None:
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._transport.handle_request(request)


def told(response: Response) -> IdempotencyInfo:
    """What is known about a response; it has to be there."""
    info = idempotency_of(response)
    assert info is not None
    return info


BLOCKING = [HttpxCaller, RequestsCaller]
EVERY = [HttpxCaller, HttpxAsyncCaller, HttpxTrioCaller, RequestsCaller]

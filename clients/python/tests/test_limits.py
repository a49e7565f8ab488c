"""What ends an attempt and a wait: `attempt_timeout` to the last byte, Abort, cancellation. The server sees that the connection is closed."""

from __future__ import annotations

import gc
import socket
import threading
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
import requests
from callers import ANN, BLOCKING, EVERY, Caller, HttpxAsyncCaller, HttpxCaller, HttpxTrioCaller, told
from server import Behaviour, Server, answer, drip_body, drip_headers, silent

from edge_idempotency_client import Abort, Aborted, CredentialsError, MemoryStore, NoAnswer, Options
from edge_idempotency_client.httpx import AsyncIdempotentTransport, IdempotentTransport
from edge_idempotency_client.requests import IdempotentAdapter

ENDLESS = [silent, drip_headers, drip_body]
# Only a test that fails waits as long as that.
OF_ANN: dict[str, Any] = {"owner": ANN, "credentials": lambda: (ANN, {})}
LONG = 20.0


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("endless", ENDLESS)
def test_an_endless_answer_is_no_answer(kind: type[Caller], server: Server, endless: Behaviour) -> None:
    server.script = [endless]
    response = kind(MemoryStore(), attempt_timeout=0.3).post(server.url)
    assert (response.text, told(response).attempts) == ("done", 2)
    assert server.left.wait(LONG), "the connection of the attempt is still open"


@pytest.mark.parametrize("kind", BLOCKING)
@pytest.mark.parametrize("endless", ENDLESS)
def test_an_endless_answer_on_a_connection_that_was_used_before(kind: type[Caller], server: Server, endless: Behaviour) -> None:
    caller = kind(MemoryStore(), attempt_timeout=0.3)
    caller.post(server.url)
    server.script = [endless]
    assert caller.post(server.url).text == "done"
    assert server.left.wait(LONG), "the connection of the attempt is still open"


@pytest.mark.parametrize("kind", EVERY)
def test_an_upload_that_nobody_reads(kind: type[Caller]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(NoAnswer):
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        kind(MemoryStore(), attempt_timeout=0.2, attempts=1).post(url, content=bytes(20_000_000))
    # What an attempt leaves open warns here.
    gc.collect()


@pytest.mark.parametrize("kind", BLOCKING)
@pytest.mark.parametrize("endless", ENDLESS)
def test_abort_during_the_attempt(kind: type[Caller], server: Server, endless: Behaviour) -> None:
    server.otherwise = endless
    caller = kind(MemoryStore(), attempt_timeout=300.0)
    abort = Abort()

    def end() -> None:
        server.reached.wait(LONG)
        abort.abort()

    ender = threading.Thread(target=end)
    ender.start()
    with abort, pytest.raises(Aborted) as caught:
        caller.post(server.url)
    ender.join()
    assert caught.value.attempts == 1
    assert [record.key for record in caller.pending()] == [caught.value.key]
    assert server.left.wait(LONG), "the connection of the attempt is still open"


@pytest.mark.parametrize("kind", BLOCKING)
def test_abort_while_credentials_hang(kind: type[Caller], server: Server) -> None:
    abort, release = Abort(), threading.Event()

    def hang() -> dict[str, str]:
        abort.abort()
        release.wait(LONG)
        return {}

    caller = kind(MemoryStore(), headers=hang, attempt_timeout=300.0)
    with abort, pytest.raises(Aborted):
        caller.post(server.url)
    assert not release.is_set()
    release.set()
    assert (server.received, caller.pending()) == ([], [])


@pytest.mark.parametrize("kind", BLOCKING)
def test_credentials_that_hang(kind: type[Caller], server: Server) -> None:
    release = threading.Event()
    caller = kind(MemoryStore(), headers=lambda: {"x": str(release.wait(LONG))}, attempt_timeout=0.05)
    with pytest.raises(CredentialsError, match="within 0.05 s"):
        caller.post(server.url)
    release.set()
    assert (server.received, caller.pending()) == ([], [])


@pytest.mark.parametrize("kind", [HttpxAsyncCaller, HttpxTrioCaller])
def test_coroutine_credentials_that_hang(kind: type[Caller], server: Server) -> None:
    async def hang() -> tuple[str, dict[str, str]]:
        await anyio.sleep(LONG)
        return ANN, {}

    caller = kind(MemoryStore(), credentials=hang, attempt_timeout=0.05)
    with pytest.raises(CredentialsError, match="within 0.05 s"):
        caller.post(server.url)
    assert (server.received, caller.pending()) == ([], [])


def test_an_abort_ends_all_threads_inside_its_block(server: Server) -> None:
    server.otherwise = silent
    abort = Abort()
    caller = HttpxCaller(MemoryStore(), attempt_timeout=300.0)
    ended: list[str] = []

    def send() -> None:
        with abort:
            try:
                caller.post(server.url)
            except Aborted as error:
                ended.append(error.key or "")

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    server.reached.wait(LONG)
    abort.abort()
    for thread in threads:
        thread.join()
    assert len(ended) == 5


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("endless", [*ENDLESS, answer(503, Retry_After="3600")])
def test_cancellation(server: Server, backend: str, endless: Behaviour) -> None:
    server.script = [endless]
    store = MemoryStore()
    request = httpx.Request("POST", server.url, content=b"{}")

    async def main() -> None:
        transport = AsyncIdempotentTransport(store, **OF_ANN, options=Options(max_retry_after=3600, budget=7200, attempt_timeout=300))

        async def send() -> None:
            await transport.handle_async_request(request)
            raise AssertionError("it was not cancelled")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.to_thread.run_sync(server.arrived.wait, LONG)
            tasks.cancel_scope.cancel()
        await transport.aclose()

    anyio.run(main, backend=backend)
    assert [record.key for record in store.records()] == [request.headers["Idempotency-Key"]]
    assert len(server.received) == 1
    if endless in ENDLESS:
        assert server.left.wait(LONG)


def test_the_timeout_of_requests_holds_for_each_attempt(server: Server) -> None:
    server.script = [silent, silent]
    with requests.Session() as session, pytest.raises(requests.ConnectionError, match="Read timed out"):
        session.mount("http://", IdempotentAdapter(MemoryStore(), **OF_ANN, options=Options(attempts=2, base=0, attempt_timeout=300)))
        session.post(server.url, timeout=(300, 0.1))
    assert len(server.received) == 2


def test_the_timeout_of_httpx_does_not_hold(server: Server) -> None:
    seen: list[Any] = []

    def inner(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200)

    transport = IdempotentTransport(MemoryStore(), **OF_ANN, options=Options(attempt_timeout=12), transport=httpx.MockTransport(inner))
    with httpx.Client(transport=transport, timeout=0.001) as client:
        client.post("http://127.0.0.1/")
        client.get("http://127.0.0.1/")
    assert seen[0] == dict.fromkeys(("connect", "read", "write", "pool"), 12)
    assert seen[1]["read"] == 0.001


def test_a_transport_that_never_returns() -> None:
    """A transport whose sockets are unknown: the caller goes on, and the thread ends when the transport does."""
    release = threading.Event()
    done = threading.Event()

    def inner(request: httpx.Request) -> httpx.Response:
        if request.headers["x-retry-attempt"] == "1":
            release.wait(LONG)
            done.set()
        return httpx.Response(200, text="done")

    options = Options(attempt_timeout=0.05, base=0)
    with httpx.Client(transport=IdempotentTransport(MemoryStore(), **OF_ANN, options=options, transport=httpx.MockTransport(inner))) as client:
        assert told(client.post("http://127.0.0.1/")).attempts == 2
    release.set()
    assert done.wait(LONG)

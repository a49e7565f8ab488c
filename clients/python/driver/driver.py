"""The program that the end-to-end tests start; clients/DRIVER.md has its messages. Usage: driver SETTINGS (one JSON object).

One more setting is `http`: "httpx" (the default), "httpx-async" or "requests".
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import requests

from edge_idempotency_client import Abort, Aborted, Expired, NoAnswer, Options, OtherOwner, Resumed, SqliteStore, idempotency_of
from edge_idempotency_client.httpx import AsyncIdempotentTransport, IdempotentTransport
from edge_idempotency_client.requests import IdempotentAdapter

HEADERS = {"content-type": "application/json"}
_output = threading.Lock()


def tell(message: dict[str, Any]) -> None:
    """Prints one message."""
    with _output:
        print(json.dumps(message), flush=True)


def tell_answer(id: str | None, response: httpx.Response | requests.Response) -> None:
    """Prints the final answer to an intent."""
    info = idempotency_of(response)
    assert info
    named = ("key", "replayed", "attempts", "operation_id", "code", "retry")
    told = {name: getattr(info, name) for name in named}
    tell({"event": "answer", "id": id, "status": response.status_code, "body": response.text, **told})


def tell_error(id: str | None, error: BaseException, key: str | None) -> None:
    """Prints why an intent has no answer."""
    kinds = {NoAnswer: "no_answer", Expired: "expired", Aborted: "aborted", OtherOwner: "other_owner", asyncio.CancelledError: "aborted"}
    kind = next((name for type_, name in kinds.items() if isinstance(error, type_)), "other")
    attempts = getattr(error, "attempts", None)
    tell({"event": "failed", "id": id, "key": key, "error": kind, "attempts": attempts, "message": str(error) or type(error).__name__})


def tell_resumed(result: Resumed[httpx.Response] | Resumed[requests.Response]) -> None:
    """Prints a result of resume_pending."""
    if result.response is not None:
        tell_answer(None, result.response)
    elif result.error is not None:
        tell_error(None, result.error, result.key)


def send_all(concurrency: int, send: Callable[[dict[str, Any]], None]) -> None:
    """Calls `send` for each line of standard input, each in a thread."""
    with ThreadPoolExecutor(concurrency) as pool:
        for line in sys.stdin:
            pool.submit(send, json.loads(line))


def in_thread(intent: dict[str, Any], post: Callable[[], httpx.Response | requests.Response]) -> None:
    """Sends one intent with a blocking client, and aborts it if it says so."""
    abort = Abort()
    timer = None
    if intent.get("abort_after_ms") is not None:
        timer = threading.Timer(intent["abort_after_ms"] / 1000, abort.abort)
        timer.start()
    try:
        with abort:
            tell_answer(intent["id"], post())
    except Exception as error:
        tell_error(intent["id"], error, getattr(error, "key", None))
    finally:
        if timer:
            timer.cancel()


def with_httpx(settings: dict[str, Any], store: SqliteStore, options: Options) -> None:
    """Runs the intents with httpx.Client."""
    inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=settings["concurrency"]))
    transport = IdempotentTransport(store, owner=settings["owner"], credentials=lambda: credentials(settings), options=options, transport=inner)
    with httpx.Client(transport=transport) as client:
        if settings.get("resume"):
            transport.resume_pending(each=tell_resumed)

        def send(intent: dict[str, Any]) -> None:
            request = client.build_request(intent["method"], intent["url"], content=intent["body"], headers=HEADERS)
            in_thread(intent, lambda: client.send(request))

        send_all(settings["concurrency"], send)


def with_requests(settings: dict[str, Any], store: SqliteStore, options: Options) -> None:
    """Runs the intents with requests.Session."""
    adapter = IdempotentAdapter(
        store, owner=settings["owner"], credentials=lambda: credentials(settings), options=options, pool_maxsize=settings["concurrency"]
    )
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", adapter)
        if settings.get("resume"):
            adapter.resume_pending(session, each=tell_resumed)

        def send(intent: dict[str, Any]) -> None:
            in_thread(intent, lambda: session.request(intent["method"], intent["url"], data=intent["body"], headers=HEADERS))

        send_all(settings["concurrency"], send)


async def with_httpx_async(settings: dict[str, Any], store: SqliteStore, options: Options) -> None:
    """Runs the intents with httpx.AsyncClient."""
    limit = asyncio.Semaphore(settings["concurrency"])
    inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=settings["concurrency"]))
    transport = AsyncIdempotentTransport(store, owner=settings["owner"], credentials=lambda: credentials(settings), options=options, transport=inner)
    async with httpx.AsyncClient(transport=transport) as client:
        if settings.get("resume"):
            await transport.resume_pending(each=tell_resumed)

        async def send(intent: dict[str, Any]) -> None:
            request = client.build_request(intent["method"], intent["url"], content=intent["body"], headers=HEADERS)
            timer = None
            try:
                async with limit:
                    if intent.get("abort_after_ms") is not None:
                        task = asyncio.current_task()
                        assert task
                        timer = asyncio.get_running_loop().call_later(intent["abort_after_ms"] / 1000, task.cancel)
                    tell_answer(intent["id"], await client.send(request))
            except (Exception, asyncio.CancelledError) as error:
                tell_error(intent["id"], error, request.headers.get("Idempotency-Key") or getattr(error, "key", None))
            finally:
                if timer:
                    timer.cancel()

        tasks = []
        while line := await asyncio.to_thread(sys.stdin.readline):
            tasks.append(asyncio.create_task(send(json.loads(line))))
        await asyncio.gather(*tasks)


def credentials(settings: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The owner, and the headers with the token."""
    return settings["owner"], {"Authorization": f"Bearer {settings['token']}"}


def main() -> None:
    """Reads the settings and runs the intents."""
    settings = {"concurrency": 64, **json.loads(sys.argv[1])}
    options = Options(
        attempts=settings["attempts"],
        budget=settings["budget_ms"] / 1000,
        attempt_timeout=settings["attempt_timeout_ms"] / 1000,
        base=settings["base_ms"] / 1000,
        cap=settings["cap_ms"] / 1000,
        max_retry_after=settings["max_retry_after_ms"] / 1000,
    )
    store = SqliteStore(settings["store"])
    http = settings.get("http") or "httpx"
    if http == "httpx":
        with_httpx(settings, store, options)
    elif http == "httpx-async":
        asyncio.run(with_httpx_async(settings, store, options))
    elif http == "requests":
        with_requests(settings, store, options)
    else:
        sys.exit(f'error: http is "{http}": take "httpx", "httpx-async" or "requests"')
    store.close()


main()

"""resume_pending: what it sends, what it leaves, and many at once."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from callers import ANN, BLOCKING, EVERY, Caller, HttpxAsyncCaller, told
from server import Handler, Received, Server, answer

from edge_idempotency_client import Abort, Aborted, DamagedRecord, Expired, KeptRequest, MemoryStore, NoAnswer, Resumed, SqliteStore, StoreError

LONG = 20.0


def kept(server: Server, key: str, body: bytes = b"{}", age: float = 60.0) -> KeptRequest:
    headers = (("Content-Type", "application/json"),)
    return KeptRequest(ANN, key, "POST", server.url + "/orders", headers, body, time.time() - age)


@pytest.mark.parametrize("kind", EVERY)
def test_each_kept_request_gets_its_answer_or_error(kind: type[Caller], server: Server, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    for key in ("done", "refused", "unanswered"):
        store.put(kept(server, key, key.encode()))
    store.put(kept(server, "old", age=24 * 3600.0))
    store.put(kept(server, "damaged"))
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute("UPDATE kept_requests SET body = x'00' WHERE key = 'damaged'")
    connection.close()

    def by_key(handler: Handler, received: Received) -> None:
        {
            "done": answer(200, "result", idempotent_replayed="true"),
            "refused": answer(422, '{"code": "refused"}', Content_Type="application/problem+json"),
            "unanswered": answer(503),
        }[received.key](handler, received)

    server.otherwise = by_key
    each: list[str] = []
    caller = kind(store, attempts=2, headers=lambda: {"Authorization": "Bearer new"})
    results = {result.key: result for result in caller.resume(each=lambda result: each.append(result.key))}
    assert sorted(each) == sorted(results) == ["damaged", "done", "old", "refused", "unanswered"]

    done = results["done"]
    assert done.response is not None
    assert done.error is None
    assert (done.response.status_code, done.response.text) == (200, "result")
    assert (told(done.response).key, told(done.response).replayed, told(done.response).attempts) == ("done", True, 1)
    assert done.response.request.url == server.url + "/orders"
    refused = results["refused"].response
    assert refused is not None
    assert told(refused).code == "refused"
    assert isinstance(results["unanswered"].error, NoAnswer)
    assert isinstance(results["old"].error, Expired)
    assert isinstance(results["damaged"].error, DamagedRecord)
    assert {record.key for record in caller.pending()} == {"unanswered", "old", "damaged"}

    assert Counter(seen.key for seen in server.received) == {"done": 1, "refused": 1, "unanswered": 2}
    for seen in server.received:
        assert seen.body == seen.key.encode()
        assert (seen.headers["authorization"], seen.headers["content-type"]) == ("Bearer new", "application/json")
    # What was not sent stays until the caller removes it.
    assert caller.forget("old")
    assert caller.forget("damaged")
    assert {record.key for record in caller.pending()} == {"unanswered"}


@pytest.mark.parametrize("kind", BLOCKING)
def test_what_is_under_way_is_not_sent_twice(kind: type[Caller], server: Server, tmp_path: Path) -> None:
    arrived, release = threading.Event(), threading.Event()

    def hold(handler: Handler, received: Received) -> None:
        arrived.set()
        release.wait(LONG)
        answer(200)(handler, received)

    server.script = [hold]
    caller = kind(SqliteStore(tmp_path / "requests.db"))
    # The other client has a store of its own for the same file.
    other = kind(SqliteStore(tmp_path / "requests.db"))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(caller.post, server.url)
        assert arrived.wait(LONG)
        assert len(caller.pending()) == 1
        assert (caller.resume(), other.resume()) == ([], [])
        release.set()
        assert call.result().text == "done"
    assert len(server.received) == 1
    assert caller.resume() == []


@pytest.mark.parametrize("kind", [*BLOCKING, HttpxAsyncCaller])
def test_several_calls_at_once_send_each_request_once(kind: type[Caller], server: Server) -> None:
    store = MemoryStore()
    for number in range(30):
        store.put(kept(server, f"key-{number}"))
    caller = kind(store)
    with ThreadPoolExecutor(4) as pool:
        results = [result for call in [pool.submit(caller.resume) for _ in range(4)] for result in call.result()]
    assert sorted(result.key for result in results) == sorted(f"key-{number}" for number in range(30))
    assert {result.error for result in results} == {None}
    assert set(Counter(seen.key for seen in server.received).values()) == {1}


@pytest.mark.parametrize("kind", [*BLOCKING, HttpxAsyncCaller])
def test_not_more_at_a_time_than_concurrency(kind: type[Caller], server: Server) -> None:
    lock = threading.Lock()
    at_once, most = 0, 0
    together = threading.Barrier(3)

    def count(handler: Handler, received: Received) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        together.wait(LONG)
        with lock:
            at_once -= 1
        answer(200)(handler, received)

    store = MemoryStore()
    for number in range(9):
        store.put(kept(server, f"key-{number}"))
    server.otherwise = count
    assert len(kind(store, attempt_timeout=LONG).resume(concurrency=3)) == 9
    assert most == 3


# An event loop has its own way to end after Ctrl-C.
@pytest.mark.parametrize(("kind", "error"), [*((kind, ZeroDivisionError) for kind in EVERY), *((kind, KeyboardInterrupt) for kind in BLOCKING)])
def test_an_error_of_each_ends_the_call_and_loses_nothing(kind: type[Caller], server: Server, error: type[BaseException]) -> None:
    store = MemoryStore()
    for number in range(20):
        store.put(kept(server, f"key-{number}"))
    known: list[str] = []

    def fail(result: Resumed[Any]) -> None:
        # The others get their answers in the meantime.
        while kind in BLOCKING and len(server.received) < 4:
            threading.Event().wait(0.001)
        if known:
            raise error
        known.append(result.key)

    caller = kind(store)
    with pytest.raises(error):
        caller.resume(each=fail, concurrency=4)
    # All but the one that the caller knows are kept, also those that have an answer.
    assert {record.key for record in store.records()} == {f"key-{number}" for number in range(20)} - set(known)
    # None of them is under way any more.
    assert len(caller.resume()) == 19
    assert store.records() == []


@pytest.mark.parametrize("kind", EVERY)
def test_an_answer_is_removed_after_the_caller_was_told(kind: type[Caller], server: Server) -> None:
    store = MemoryStore()
    store.put(kept(server, "a"))
    seen: list[int] = []
    caller = kind(store)
    caller.resume(each=lambda result: seen.append(len(store.records())))
    assert (seen, store.records()) == ([1], [])


@pytest.mark.parametrize("kind", BLOCKING)
def test_abort_ends_it(kind: type[Caller], server: Server) -> None:
    store = MemoryStore()
    for number in range(5):
        store.put(kept(server, f"key-{number}"))
    abort = Abort()
    abort.abort()
    with abort:
        results = kind(store).resume()
    assert [type(result.error) for result in results] == [Aborted] * 5
    assert (server.received, len(store.records())) == ([], 5)


@pytest.mark.parametrize("kind", EVERY)
def test_a_store_that_cannot_be_read(kind: type[Caller]) -> None:
    class Unreadable(MemoryStore):
        def records(self) -> list[KeptRequest | DamagedRecord]:
            raise OSError("gone")

    with pytest.raises(StoreError, match="gone"):
        kind(Unreadable()).resume()


@pytest.mark.parametrize("kind", EVERY)
def test_concurrency_out_of_bounds(kind: type[Caller]) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        kind(MemoryStore()).resume(concurrency=0)

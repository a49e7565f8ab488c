"""The way of a request, with a platform of the tests: credentials, what is kept, stores that fail, and abort."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from edge_idempotency_client import Aborted, CredentialsError, Expired, IdempotencyInfo, KeyReused, MemoryStore, NoAnswer, Options, Store, StoreError
from edge_idempotency_client.answers import Answer
from edge_idempotency_client.blocking import _run
from edge_idempotency_client.errors import DamagedRecord
from edge_idempotency_client.exchange import Clock
from edge_idempotency_client.keeper import Keeper
from edge_idempotency_client.kept_request import KeptRequest
from edge_idempotency_client.sending import AbortRequested, AttemptFailed, Intent, Outgoing, Reply, send

T = TypeVar("T")

BUSY = Answer(503, {})
DONE = Answer(200, {})
REFUSED = Answer(401, {})


class Script:
    """A platform: gives one answer, or raises one error, for each attempt; waits take no time."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[Outgoing] = []
        self.waits: list[float] = []
        self.given: Callable[[], Mapping[str, str]] = dict
        self.owner = "ann"
        self.abort_in_wait: int | None = None
        self.on_attempt: Callable[[], object] = lambda: None

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    async def credentials(self) -> tuple[str, Mapping[str, str]]:
        return self.owner, self.given()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self.abort_in_wait:
            raise AbortRequested

    async def attempt(self, outgoing: Outgoing) -> Reply[str]:
        self.sent.append(outgoing)
        self.on_attempt()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer, lambda: b"", f"response {answer.status}")


def intent(headers: dict[str, str] | None = None, body: bytes = b"{}", resumed: bool = False, kept_at: float = 1000.0) -> Intent:
    every = tuple((headers or {}).items())
    return Intent(KeptRequest("ann", "key-1", "POST", "https://api.example.com/orders", every, body, kept_at), every, resumed)


def run(script: Script, store: Store, what: Intent | None = None, **options: Any) -> tuple[str, IdempotencyInfo]:
    clock = Clock(lambda: 0.0, lambda: 1000.0, lambda low, high: high)
    return _run(send(what or intent(), Keeper(store, "ann"), Options(**options), clock, script))


def sent_tokens(script: Script) -> list[str]:
    return [dict(outgoing.headers)["Authorization"] for outgoing in script.sent]


def tokens(*values: str) -> Callable[[], dict[str, str]]:
    left = list(values)
    return lambda: {"Authorization": left.pop(0)}


def test_it_is_in_the_store_before_each_attempt_and_gone_after_the_answer() -> None:
    store = MemoryStore()
    script = Script(BUSY, AttemptFailed("reset"), DONE)
    seen: list[int] = []
    script.on_attempt = lambda: seen.append(len(store.records()))
    response, info = run(script, store)
    assert (response, info.attempts, seen) == ("response 200", 3, [1, 1, 1])
    assert script.waits == [0, 0, 0.5, 1]
    assert store.records() == []


def test_secrets_are_sent_and_never_kept() -> None:
    store = MemoryStore()
    script = Script(BUSY)
    script.given = lambda: {"X-Token": "secret-5"}
    headers = {
        "AUTHORIZATION": "secret-1",
        "cookie": "secret-2",
        "Proxy-Authorization": "secret-3",
        "X-Api-Key": "secret-4",
        "x-token": "secret-old",
        "Content-Type": "application/json",
    }
    with pytest.raises(NoAnswer) as caught:
        run(script, store, intent(headers), attempts=1, secret_headers={"x-api-key"})
    (kept,) = store.records()
    assert isinstance(kept, KeptRequest)
    assert kept.headers == (("Content-Type", "application/json"),)
    sent = dict(script.sent[0].headers)
    assert [sent[name] for name in ("AUTHORIZATION", "cookie", "Proxy-Authorization", "X-Api-Key", "X-Token")] == [f"secret-{n}" for n in range(1, 6)]
    assert "x-token" not in sent
    for text in (str(caught.value), repr(caught.value), repr(script.sent), repr(intent(headers))):
        assert "secret-1" not in text.split("KeptRequest")[0]


def test_credentials_are_asked_before_each_attempt() -> None:
    script = Script(BUSY, BUSY, DONE)
    script.given = tokens("a", "b", "c")
    run(script, MemoryStore())
    assert sent_tokens(script) == ["a", "b", "c"]


def test_credentials_that_fail_before_the_first_attempt() -> None:
    store = MemoryStore()
    script = Script()
    script.given = tokens()
    with pytest.raises(CredentialsError, match="Nothing was sent") as caught:
        run(script, store)
    assert (caught.value.key, caught.value.attempts, script.sent, store.records()) == ("key-1", 0, [], [])
    assert isinstance(caught.value.__cause__, IndexError)


def test_credentials_that_fail_later() -> None:
    store = MemoryStore()
    script = Script(BUSY)
    script.given = tokens("a")
    with pytest.raises(CredentialsError, match="is kept"):
        run(script, store)
    assert len(store.records()) == 1


@pytest.mark.parametrize("wrong", [{"Authorization": None}, {"Authorization": "a\r\nX: b"}, "Bearer a"])
def test_credentials_that_are_no_headers(wrong: Any) -> None:
    script = Script()
    script.given = lambda: wrong
    with pytest.raises(CredentialsError):
        run(script, MemoryStore())
    assert script.sent == []


class Broken(MemoryStore):
    """A store that raises what a disk raises."""

    def __init__(self, *methods: str) -> None:
        super().__init__()
        self.methods = methods

    def put(self, request: KeptRequest) -> KeptRequest | None:
        if "put" in self.methods:
            raise OSError("the disk is full")
        return super().put(request)

    def remove(self, owner: str, key: str) -> bool:
        if "remove" in self.methods:
            raise OSError("the disk is full")
        return super().remove(owner, key)


def test_a_store_that_cannot_keep_it() -> None:
    script = Script(DONE)
    with pytest.raises(StoreError, match="the disk is full"):
        run(script, Broken("put"))
    assert script.sent == []


class PutAnyway(Broken):
    """A store whose `put` fails after it has kept the request, as a network can."""

    def put(self, request: KeptRequest) -> KeptRequest | None:
        if MemoryStore.put(self, request) is not None:
            return MemoryStore.get(self, "ann", request.key)
        raise OSError("the connection broke")


def test_a_put_that_failed_leaves_nothing() -> None:
    store = PutAnyway()
    with pytest.raises(StoreError, match="the connection broke$"):
        run(Script(DONE), store)
    assert store.records() == []


def test_a_put_that_failed_and_what_it_left_cannot_be_removed() -> None:
    store = PutAnyway("remove")
    with pytest.raises(StoreError, match=r"the connection broke.*may be kept: forget\('key-1'\)") as caught:
        run(Script(DONE), store)
    assert (caught.value.key, len(store.records())) == ("key-1", 1)


def test_a_put_that_failed_does_not_remove_an_earlier_request() -> None:
    store = Broken("put")
    MemoryStore.put(store, intent(kept_at=900.0).request)
    with pytest.raises(StoreError):
        run(Script(DONE), store)
    assert len(store.records()) == 1


def test_a_store_that_cannot_remove_it_does_not_lose_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "edge_idempotency_client"):
        response, _ = run(Script(DONE), Broken("remove"))
    assert response == "response 200"
    assert "key-1" in caplog.text
    assert "the disk is full" in caplog.text


def test_a_damaged_record_under_the_key() -> None:
    class Damaged(MemoryStore):
        def put(self, request: KeptRequest) -> KeptRequest | None:
            raise DamagedRecord(request.owner, request.key, "test")

    script = Script(DONE)
    with pytest.raises(DamagedRecord):
        run(script, Damaged())
    assert script.sent == []


def test_the_same_request_again_counts_from_its_first_time() -> None:
    store = MemoryStore()
    store.put(intent(kept_at=100.0).request)
    script = Script(DONE)
    with pytest.raises(Expired) as caught:
        run(script, store, expires_after=899.0)
    assert (script.sent, caught.value.attempts, len(store.records())) == ([], 0, 1)
    assert run(script, store, expires_after=901.0)[0] == "response 200"


class SteppedClock:
    """A wall clock that the tests set; the monotonic clock stands still, as it does while the machine is suspended."""

    def __init__(self) -> None:
        self.wall = 1000.0

    def run(self, script: Script, store: Store, what: Intent | None = None, **options: Any) -> tuple[str, IdempotencyInfo]:
        clock = Clock(lambda: 0.0, lambda: self.wall, lambda low, high: high)
        return _run(send(what or intent(), Keeper(store, "ann"), Options(**options), clock, script))


def test_a_request_that_expires_during_the_wait_is_not_sent_again() -> None:
    clock, store = SteppedClock(), MemoryStore()

    class Suspended(Script):
        async def sleep(self, seconds: float) -> None:
            if self.sent:
                clock.wall += 24 * 3600

    script = Suspended(BUSY, DONE)
    with pytest.raises(Expired) as caught:
        clock.run(script, store)
    assert (caught.value.attempts, len(script.sent), len(store.records())) == (1, 1, 1)


def test_a_request_that_expires_while_credentials_are_asked_is_not_sent() -> None:
    clock, store, script = SteppedClock(), MemoryStore(), Script(DONE)
    store.put(intent().request)

    def slow() -> dict[str, str]:
        clock.wall += 24 * 3600
        return {}

    script.given = slow
    with pytest.raises(Expired) as caught:
        clock.run(script, store, intent(resumed=True))
    assert (caught.value.attempts, script.sent, len(store.records())) == (0, [], 1)


def test_an_operation_is_asked_also_after_the_request_has_expired() -> None:
    clock = SteppedClock()
    script = Script(Answer(202, {"idempotency-status": "processing", "location": "/operations/1"}), DONE)
    script.on_attempt = lambda: setattr(clock, "wall", 1000.0 + 24 * 3600)
    assert clock.run(script, MemoryStore())[1].attempts == 2


@pytest.mark.parametrize(("ahead", "sent"), [(299.0, 1), (301.0, 0)])
def test_a_request_from_the_future_has_expired(ahead: float, sent: int) -> None:
    store, script = MemoryStore(), Script(DONE)
    what = intent(resumed=True, kept_at=1000.0 + ahead)
    store.put(what.request)
    if sent:
        run(script, store, what)
    else:
        with pytest.raises(Expired, match="301 s in the future"):
            run(script, store, what)
    assert len(script.sent) == sent


def test_what_does_not_go_with_the_request_to_location() -> None:
    headers = {"If-Match": '"1"', "Range": "bytes=0-1", "Content-Type": "text/plain", "Accept": "text/plain", "X-A": "b"}
    script = Script(Answer(202, {"idempotency-status": "processing", "location": "/operations/1"}), DONE)
    script.given = lambda: {"Authorization": "t", "Idempotency-Key": "another"}
    run(script, MemoryStore(), intent(headers))
    first, poll = (dict(outgoing.headers) for outgoing in script.sent)
    assert first == {**headers, "Authorization": "t", "X-Retry-Attempt": "1", "Idempotency-Key": "key-1"}
    assert poll == {"Accept": "text/plain", "X-A": "b", "Authorization": "t", "X-Retry-Attempt": "2"}


def test_another_request_under_the_key() -> None:
    store = MemoryStore()
    store.put(intent().request)
    script = Script(DONE)
    with pytest.raises(KeyReused):
        run(script, store, intent(body=b"other"))
    assert script.sent == []
    assert len(store.records()) == 1


def test_no_answer_has_the_last_failure_as_its_cause() -> None:
    failure = AttemptFailed("reset by peer")
    with pytest.raises(NoAnswer, match="reset by peer") as caught:
        run(Script(BUSY, failure), MemoryStore(), attempts=2)
    assert caught.value.__cause__ is failure


def test_abort_before_it_is_kept() -> None:
    store = MemoryStore()
    script = Script(DONE)
    script.abort_in_wait = 1
    with pytest.raises(Aborted) as caught:
        run(script, store)
    assert (caught.value.key, caught.value.attempts, script.sent, store.records()) == ("key-1", 0, [], [])


def test_an_error_of_the_program_ends_it_and_keeps_the_request() -> None:
    store = MemoryStore()
    with pytest.raises(ZeroDivisionError):
        run(Script(ZeroDivisionError()), store)
    assert len(store.records()) == 1


def test_a_resumed_request_is_sent_as_it_was_kept() -> None:
    store = MemoryStore()
    kept = intent({"Content-Type": "application/json"}, b"body", resumed=True)
    store.put(kept.request)
    script = Script(DONE)
    script.given = tokens("new")
    run(script, store, kept)
    assert script.sent[0].body == b"body"
    assert dict(script.sent[0].headers) == {
        "Content-Type": "application/json",
        "Authorization": "new",
        "X-Retry-Attempt": "1",
        "Idempotency-Key": "key-1",
    }
    # `resume_pending` removes it when the caller has been told.
    assert store.records() == [kept.request]

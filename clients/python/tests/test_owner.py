"""A request belongs to who made it: two users of one store, and a user who changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from callers import ANN, EVERY, Caller, HttpxCaller
from server import Behaviour, Handler, Received, Server, answer

from edge_idempotency_client import CredentialsError, DamagedRecord, KeptRequest, MemoryStore, NoAnswer, OtherOwner, Resumed, SqliteStore, Store
from edge_idempotency_client.httpx import IdempotentTransport
from edge_idempotency_client.keeper import Keeper
from edge_idempotency_client.resuming import Resumption

BOB = "acme/shop/bob"
KEY = {"Idempotency-Key": "mine"}
PROCESSING = answer(202, Idempotency_Status="processing", Location="/operations/1")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "requests.db")


@pytest.mark.parametrize("kind", EVERY)
def test_another_user_resumes(kind: type[Caller], server: Server, store: Store) -> None:
    server.script = [answer(503), answer(200, "done")]
    ann, bob = kind(store, attempts=1), kind(store, owner=BOB)
    with pytest.raises(NoAnswer):
        ann.post(server.url, headers=KEY)
    told: list[Any] = []
    (result,) = bob.resume(each=told.append)
    assert isinstance(result.error, OtherOwner)
    assert str(result.error).startswith(f"the request with the key mine is of {ANN}, and this is {BOB}. It is kept")
    assert (told, result.error.owner, result.request and result.request.owner) == ([result], ANN, ANN)
    assert not bob.forget("mine")
    assert (len(server.received), [record.owner for record in bob.pending()]) == (1, [ANN])
    (own,) = ann.resume()
    assert own.response
    assert (own.response.text, ann.pending()) == ("done", [])


@pytest.mark.parametrize(
    ("sent", "script"),
    [
        pytest.param(0, [answer(200)], id="before the first attempt"),
        pytest.param(1, [answer(503), answer(200)], id="between two attempts"),
        pytest.param(1, [answer(401), answer(200)], id="after a 401"),
        pytest.param(1, [PROCESSING, answer(404), answer(200)], id="before the question at Location"),
        pytest.param(2, [PROCESSING, answer(404), answer(200)], id="between two questions at Location"),
    ],
)
@pytest.mark.parametrize("kind", EVERY)
def test_the_user_changes(kind: type[Caller], server: Server, sent: int, script: list[Behaviour]) -> None:
    """Each attempt goes out with the credentials of the owner only, whenever another user logs in."""
    server.script = list(script)

    def credentials() -> tuple[str, dict[str, str]]:
        owner = ANN if len(server.received) < sent else BOB
        return owner, {"Authorization": owner}

    caller = kind(MemoryStore(), credentials=credentials)
    with pytest.raises(OtherOwner, match="It is kept" if sent else "not sent or kept") as caught:
        caller.post(server.url)
    assert (caught.value.attempts, caught.value.owner, len(caller.pending())) == (sent, ANN, min(sent, 1))
    assert [seen.headers["authorization"] for seen in server.received] == [ANN] * sent


@pytest.mark.parametrize("given", [{}, None, "Bearer t", (), ("ann",), (" ", {}), (None, {}), {"owner": "ann"}])
def test_credentials_of_nobody(server: Server, given: object) -> None:
    with pytest.raises(CredentialsError, match=r"it has to return \(owner, headers\)"):
        HttpxCaller(MemoryStore(), credentials=lambda: given).post(server.url)
    assert server.received == []


@pytest.mark.parametrize("owner", ["", " ", None, 7])
def test_a_client_of_nobody(owner: Any) -> None:
    with pytest.raises(ValueError, match="owner is"):
        IdempotentTransport(MemoryStore(), owner=owner, credentials=lambda: (owner, {}))


@pytest.mark.parametrize("kind", EVERY)
def test_two_users_with_one_key(kind: type[Caller], server: Server, store: Store) -> None:
    """Neither waits for the other, is refused for it, or gets or removes what is of the other."""
    ann, bob = kind(store), HttpxCaller(store, owner=BOB, attempts=1)

    def hold(handler: Handler, received: Received) -> None:
        with pytest.raises(NoAnswer):
            bob.post(server.url, content=b"other", headers=KEY)
        results = [result.response.text if result.response else type(result.error) for result in bob.resume()]
        assert sorted(map(str, results)) == [str(OtherOwner), "of Bob"]
        answer(200, "of Ann")(handler, received)

    server.script = [hold, answer(503), answer(200, "of Bob")]
    assert ann.post(server.url, headers=KEY).text == "of Ann"
    assert (len(server.received), store.records()) == (3, [])


def test_an_answer_stays_while_another_users_request_with_its_key_is_told() -> None:
    store = MemoryStore()
    store.put(KeptRequest(ANN, "mine", "POST", "https://api.example.com/", (), b"", 1.0))
    resumption = Resumption(Keeper(store, ANN))
    with resumption.claimed("mine"):
        resumption.answered("mine")
    resumption.told(Resumed("mine", error=OtherOwner("mine", BOB, ANN, 0, kept=True)))
    assert len(store.records()) == 1
    resumption.told(Resumed("mine", response="an answer"))
    assert store.records() == []
    resumption.close()


@pytest.mark.parametrize("kind", EVERY)
def test_forget_owner(kind: type[Caller], server: Server, store: Store) -> None:
    server.script = [answer(503)] * 3
    ann, bob = kind(store, attempts=1), kind(store, attempts=1, owner=BOB)
    for caller in (ann, ann, bob):
        with pytest.raises(NoAnswer):
            caller.post(server.url)
    ann.adapter.forget_owner(ANN)
    assert [record.owner for record in ann.pending()] == [BOB]


@pytest.mark.parametrize(("change", "reason"), [("owner = ' '", "no owner"), ("owner = x'00'", "type"), ("owner = 'acme/shop/bob'", "checksum")])
def test_a_record_without_its_owner_is_never_sent(server: Server, tmp_path: Path, change: str, reason: str) -> None:
    server.script = [answer(503)]
    store = SqliteStore(tmp_path / "requests.db")
    with pytest.raises(NoAnswer):
        HttpxCaller(store, attempts=1).post(server.url, headers=KEY)
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute(f"UPDATE kept_requests SET {change}")
    connection.close()
    for owner in (ANN, BOB):
        (result,) = HttpxCaller(store, owner=owner).resume()
        assert isinstance(result.error, DamagedRecord)
        assert reason in result.error.reason
    assert len(server.received) == 1


def test_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute("CREATE TABLE kept_requests (key TEXT PRIMARY KEY)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(Exception, match="take another file"):
        SqliteStore(tmp_path / "requests.db")

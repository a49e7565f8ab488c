"""Each HTTP library against a real server: what is sent, what breaks, and what the caller gets."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import requests
from callers import EVERY, Caller, HttpxAsyncCaller, RequestsCaller, told
from server import Server, answer, cut_off, reset

from edge_idempotency_client import InvalidRequest, KeyReused, MemoryStore, NoAnswer, idempotency_of

pytestmark = pytest.mark.parametrize("kind", EVERY)

BUSY = answer(503)


def test_one_key_and_the_same_bytes_for_all_attempts(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY, reset, answer(201, "made")]
    caller = kind(MemoryStore())
    response = caller.post(server.url + "/orders?x=1")
    assert (response.status_code, response.text) == (201, "made")
    assert [(seen.method, seen.path, seen.body) for seen in server.received] == [("POST", "/orders?x=1", b'{"order":1}')] * 3
    key = uuid.UUID(server.received[0].key)
    assert key.version == 4
    assert {seen.key for seen in server.received} == {str(key)}
    assert [seen.headers["x-retry-attempt"] for seen in server.received] == ["1", "2", "3"]
    info = told(response)
    assert (info.key, info.attempts, info.replayed) == (str(key), 3, False)
    assert caller.pending() == []
    assert response.request.headers["Idempotency-Key"] == str(key)


def test_a_refused_connection_ends_with_no_answer(kind: type[Caller]) -> None:
    with Server() as gone:
        url = gone.url
    caller = kind(MemoryStore(), attempts=3)
    with pytest.raises(NoAnswer) as caught:
        caller.post(url, headers={"Idempotency-Key": "intent-1"})
    assert (caught.value.key, caught.value.attempts) == ("intent-1", 3)
    assert "onnect" in caught.value.last
    assert isinstance(caught.value, requests.ConnectionError if kind is RequestsCaller else httpx.TransportError)
    assert [record.key for record in caller.pending()] == ["intent-1"]
    assert caller.forget("intent-1")
    assert not caller.forget("intent-1")
    assert caller.pending() == []


def test_a_problem_document_that_is_compressed_or_none(kind: type[Caller], server: Server) -> None:
    problem = gzip.compress(b'{"code": "refused", "retry": 7}')
    server.script = [
        answer(400, problem, Content_Type="application/json", Content_Encoding="gzip", Idempotency_Retry="never"),
        answer(400, "[1]", Content_Type="application/json"),
        answer(400, "{", Content_Type="application/problem+json"),
        answer(400, '{"code": "x"}', Content_Type="text/plain"),
    ]
    caller = kind(MemoryStore())
    first = caller.post(server.url)
    assert first.json()["code"] == "refused"
    assert (told(first).code, told(first).retry) == ("refused", "never")
    assert [told(caller.post(server.url)).code for _ in range(3)] == [None, None, None]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_final_even_if_the_library_would_follow(kind: type[Caller], server: Server, status: int) -> None:
    with Server() as other:
        server.script = [answer(status, "", Location=other.url + "/elsewhere")]
        response = kind(MemoryStore()).post(server.url, follow=True)
        assert (response.status_code, response.headers["location"]) == (status, other.url + "/elsewhere")
        assert other.received == []
    assert len(server.received) == 1


def test_other_methods_pass_as_they_are(kind: type[Caller], server: Server) -> None:
    server.script = [answer(307, "", Location="/there"), BUSY]
    caller = kind(MemoryStore())
    response = caller.request("GET", server.url, follow=True)
    assert (response.status_code, idempotency_of(response)) == (503, None)
    assert [seen.path for seen in server.received] == ["/", "/there"]
    assert "idempotency-key" not in server.received[0].headers
    assert "x-retry-attempt" not in server.received[0].headers


def test_methods_and_the_number_of_the_attempt_are_options(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    caller = kind(MemoryStore(), methods=frozenset({"delete"}), attempt_header=False)
    assert told(caller.request("DELETE", server.url)).attempts == 2
    assert "x-retry-attempt" not in server.received[0].headers
    assert idempotency_of(caller.request("PATCH", server.url)) is None


def test_a_request_of_another_method_that_has_a_key(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    assert told(kind(MemoryStore()).request("PUT", server.url, headers={"Idempotency-Key": "k-1"})).attempts == 2
    assert [seen.headers["idempotency-key"] for seen in server.received] == ["k-1", "k-1"]


def test_a_body_that_is_a_stream_is_sent_whole_each_time(kind: type[Caller], server: Server) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one "
        yield b"two"

    async def async_pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    server.script = [BUSY, cut_off]
    content: Any = async_pieces() if issubclass(kind, HttpxAsyncCaller) else pieces()
    kind(MemoryStore()).post(server.url, content=content)
    assert [seen.body for seen in server.received] == [b"one two"] * 3
    assert {seen.headers.get("transfer-encoding") for seen in server.received} == {None}


def test_a_form_with_a_file_is_the_same_each_time(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    caller = kind(MemoryStore())
    caller.request("POST", server.url, files={"file": ("a.bin", b"\x00\xff")}, data={"name": "x"})
    first, second = server.received
    assert (first.body, first.headers["content-type"]) == (second.body, second.headers["content-type"])
    assert b"\x00\xff" in first.body


@pytest.mark.parametrize("key", ["", "a,b"])
def test_a_key_that_is_none(kind: type[Caller], server: Server, key: str) -> None:
    caller = kind(MemoryStore())
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        caller.post(server.url, headers={"Idempotency-Key": key})
    assert (server.received, caller.pending()) == ([], [])


def test_a_key_of_another_request_is_refused(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    caller = kind(MemoryStore(), attempts=1)
    headers = {"Idempotency-Key": "intent-1"}
    with pytest.raises(NoAnswer):
        caller.post(server.url, headers=headers)
    with pytest.raises(KeyReused, match="intent-1"):
        caller.post(server.url, headers=headers, content=b"another")
    assert len(server.received) == 1
    # The same request may come again.
    assert caller.post(server.url, headers=headers).text == "done"
    assert caller.pending() == []


def test_the_password_of_a_url_is_not_kept(kind: type[Caller], server: Server) -> None:
    server.otherwise = BUSY
    caller = kind(MemoryStore(), attempts=1)
    url = server.url.replace("//", "//bob:s3cret@")
    with pytest.raises(NoAnswer):
        caller.post(url + "/orders", headers={"Cookie": "c00kie"})
    # The library makes a header of it, which is sent.
    assert server.received[0].headers["authorization"].startswith("Basic ")
    assert server.received[0].headers["cookie"] == "c00kie"
    assert "s3cret" not in repr(caller.pending())
    assert "c00kie" not in repr(caller.pending())
    assert "authorization" not in repr(caller.pending()).lower()


def test_cookies_of_the_answer_reach_the_caller(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY, answer(200, Set_Cookie="a=b; Path=/")]
    assert dict(kind(MemoryStore()).post(server.url).cookies) == {"a": "b"}

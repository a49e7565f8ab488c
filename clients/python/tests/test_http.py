"""Each HTTP library against a real server: what is sent, what breaks, and what the caller gets."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import requests
from callers import EVERY, Caller, HttpxAsyncCaller, RequestsCaller, told
from server import Behaviour, Server, answer, close, cut_off, cut_off_chunked, reset

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


@pytest.mark.parametrize("broken", [reset, close, cut_off, cut_off_chunked])
def test_no_whole_answer_is_no_answer(kind: type[Caller], server: Server, broken: Behaviour) -> None:
    server.script = [broken, broken, answer(200, "done", idempotency_status="replayed")]
    response = kind(MemoryStore()).post(server.url)
    assert response.text == "done"
    assert (told(response).attempts, told(response).replayed) == (3, True)


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


def test_an_error_status_is_an_answer(kind: type[Caller], server: Server) -> None:
    problem = {"code": "idempotency_key_invalid", "retry": "new_key", "detail": "Take another key.", "status": 400}
    server.script = [answer(400, json.dumps(problem), Content_Type="application/problem+json", X_Operation_Id="inv_1")]
    caller = kind(MemoryStore())
    response = caller.post(server.url)
    info = told(response)
    assert response.status_code == 400
    assert (info.code, info.retry, info.detail, info.operation_id) == ("idempotency_key_invalid", "new_key", "Take another key.", "inv_1")
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


def test_an_operation_is_asked_without_key_and_body(kind: type[Caller], server: Server) -> None:
    processing = answer(202, "{}", Idempotency_Status="processing", Location="/operations/1", X_Operation_Id="inv_1")
    server.script = [processing, BUSY, processing, answer(404), answer(200, "done", idempotency_status="replayed")]
    caller = kind(MemoryStore(), headers=lambda: {"Authorization": "Bearer t"})
    response = caller.post(server.url + "/orders", headers={"Content-Type": "application/json", "Accept": "application/json"})
    assert response.text == "done"
    assert (told(response).attempts, told(response).operation_id) == (5, "inv_1")
    assert [(seen.method, seen.path) for seen in server.received] == [
        ("POST", "/orders"),
        ("GET", "/operations/1"),
        ("GET", "/operations/1"),
        ("GET", "/operations/1"),
        ("POST", "/orders"),
    ]
    for poll in server.received[1:4]:
        assert not {"idempotency-key", "content-type", "content-length"} & poll.headers.keys()
        assert poll.body == b""
        assert (poll.headers["authorization"], poll.headers["accept"]) == ("Bearer t", "application/json")
    assert server.received[4].key == server.received[0].key


def test_location_of_another_origin_is_not_asked(kind: type[Caller], server: Server) -> None:
    with Server() as other:
        server.script = [answer(202, "", Idempotency_Status="processing", Location=other.url + "/operations/1")]
        assert kind(MemoryStore()).post(server.url + "/orders").text == "done"
        assert other.received == []
    assert [seen.path for seen in server.received] == ["/orders", "/orders"]


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


def test_patch_without_a_body(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    assert told(kind(MemoryStore()).request("PATCH", server.url)).attempts == 2
    assert [(seen.method, seen.body) for seen in server.received] == [("PATCH", b"")] * 2


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


def test_a_key_of_the_caller(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY]
    response = kind(MemoryStore()).post(server.url, headers={"idempotency-key": "refund-1001"})
    assert told(response).key == "refund-1001"
    assert [seen.key for seen in server.received] == ["refund-1001"] * 2


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


def test_credentials_are_renewed_after_401(kind: type[Caller], server: Server) -> None:
    server.script = [answer(401), answer(200, "done")]
    tokens = iter(["old", "new"])
    caller = kind(MemoryStore(), headers=lambda: {"authorization": next(tokens)})
    assert caller.post(server.url, headers={"Authorization": "none"}).text == "done"
    assert [seen.headers["authorization"] for seen in server.received] == ["old", "new"]


def test_a_large_answer(kind: type[Caller], server: Server) -> None:
    large = bytes(range(256)) * 8000
    server.script = [answer(200, large)]
    assert kind(MemoryStore()).post(server.url).content == large


def test_cookies_of_the_answer_reach_the_caller(kind: type[Caller], server: Server) -> None:
    server.script = [BUSY, answer(200, Set_Cookie="a=b; Path=/")]
    assert dict(kind(MemoryStore()).post(server.url).cookies) == {"a": "b"}

"""The answer table of clients/README.md, row by row, `Retry-After`, and the origin of `Location`."""

from __future__ import annotations

import pytest

from edge_idempotency_client.answers import Answer, Meaning, location_of, meaning, retry_after

PROCESSING = {"idempotency-status": "processing"}
STORED = {"idempotency-status": "stored"}
REPLAYED = {"idempotency-status": "replayed"}
REPLAYED_TOO = {"idempotent-replayed": "true"}
AFTER = {"retry-after": "1"}


def advice(value: str) -> dict[str, str]:
    return {"idempotency-retry": value}


ROWS = [
    # 202 with processing comes first, whatever else the answer says.
    (202, PROCESSING, Meaning.PROCESSING),
    (202, PROCESSING | advice("never"), Meaning.PROCESSING),
    *[(202, {"idempotency-status": word} | REPLAYED_TOO, Meaning.CAME_BEFORE) for word in ("completed", "failed", "accepted")],
    (202, {"idempotency-status": "failed"} | advice("new_key"), Meaning.CAME_BEFORE),
    (200, {"idempotency-status": "completed"}, Meaning.FINAL),
    (202, {}, Meaning.FINAL),
    (202, STORED, Meaning.FINAL),
    (200, PROCESSING, Meaning.FINAL),
    # The advice of the API goes before every status.
    *[(status, advice(value), Meaning.AGAIN) for status in (400, 401, 404, 409, 500, 503) for value in ("same_key", "wait")],
    *[(status, advice(value), Meaning.FINAL) for status in (400, 401, 409, 425, 429, 503) for value in ("new_key", "new_request", "never", "else")],
    (409, advice("new_key") | AFTER, Meaning.FINAL),
    (503, advice("same_key") | STORED, Meaning.AGAIN),
    (503, advice(" same_key "), Meaning.AGAIN),
    (503, advice(""), Meaning.AGAIN),
    # New credentials may help after a 401 without advice.
    (401, {}, Meaning.RENEW),
    (401, STORED, Meaning.RENEW),
    # A kept answer comes again unchanged.
    *[(status, kept, Meaning.FINAL) for status in (200, 402, 409, 425, 429, 500, 502, 503, 504) for kept in (STORED, REPLAYED, REPLAYED_TOO)],
    (409, STORED | AFTER, Meaning.FINAL),
    (503, {"idempotent-replayed": "false"}, Meaning.AGAIN),
    # The first request is under way, if the answer says when to come back.
    (409, AFTER, Meaning.AGAIN),
    (425, AFTER, Meaning.AGAIN),
    (409, {}, Meaning.FINAL),
    (425, {}, Meaning.FINAL),
    # Proxies and limits answer with these.
    *[(status, {}, Meaning.AGAIN) for status in (429, 502, 503, 504)],
    # All other answers are final.
    *[(status, {}, Meaning.FINAL) for status in (200, 201, 204, 301, 307, 308, 400, 403, 404, 405, 408, 413, 422, 431, 500, 501, 505)],
]


@pytest.mark.parametrize(("status", "headers", "expected"), ROWS)
def test_row(status: int, headers: dict[str, str], expected: Meaning) -> None:
    assert meaning(Answer(status, headers), polling=False, may_renew=True) == expected
    # At Location an answer means the same, except for a 404 that is not the operation's own answer.
    answer = Answer(status, headers)
    at_location = Meaning.GONE if status == 404 and not answer.kept else expected
    assert meaning(Answer(status, headers), polling=True, may_renew=True) == at_location


def test_401_after_the_renewal() -> None:
    assert meaning(Answer(401, {}), polling=False, may_renew=False) == Meaning.FINAL
    assert meaning(Answer(401, advice("same_key")), polling=False, may_renew=False) == Meaning.AGAIN


NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("7", 7),
        (" 7 ", 7),
        ("60", 60),
        ("61", 60),
        ("9" * 5000, 60),
        ("-1", 0),
        ("1.5", 0),
        ("+1", 0),
        ("1e3", 0),
        ("²", 0),
        ("soon", 0),
        ("Sun, 09 Sep 2001 01:46:50 GMT", 10),
        ("Sunday, 09-Sep-01 01:46:50 GMT", 10),
        ("Sun Sep  9 01:46:50 2001", 10),
        ("Sun, 09 Sep 2001 01:46:30 GMT", 0),
        ("Sun, 09 Sep 2001 05:46:50 GMT", 60),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0),
        ("Sun, 40 Sep 2001 01:46:50 GMT", 0),
        (", ,", 0),
    ],
)
def test_retry_after(value: str | None, seconds: float) -> None:
    assert retry_after(value, NOW, 60.0) == seconds


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/operations/1", "https://api.example.com/operations/1"),
        ("1?wait=1", "https://api.example.com/v1/1?wait=1"),
        ("https://api.example.com/o/1#part", "https://api.example.com/o/1"),
        ("https://api.example.com:443/o/1", "https://api.example.com:443/o/1"),
        ("HTTPS://API.example.com/o/1", "https://API.example.com/o/1"),
        ("http://api.example.com/o/1", None),
        ("https://api.example.com:444/o/1", None),
        ("https://evil.example.com/o/1", None),
        ("//evil.example.com/o/1", None),
        ("https://api.example.com.evil.com/o/1", None),
        ("https://user@api.example.com/o/1", None),
        ("https://api.example.com:port/o/1", None),
        ("https://[api.example.com/o/1", None),
        ("file:///etc/passwd", None),
        ("", None),
    ],
)
def test_location_of_the_same_origin(location: str, target: str | None) -> None:
    assert location_of(Answer(202, {"location": location}), "https://api.example.com/v1/refunds") == target

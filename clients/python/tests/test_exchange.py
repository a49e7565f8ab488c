"""Schedule, budget and expiry, with a clock and a random source of the tests."""

from __future__ import annotations

import pytest

from edge_idempotency_client.answers import Answer
from edge_idempotency_client.errors import Expired, NoAnswer
from edge_idempotency_client.exchange import Clock, Exchange, Send, Step, Stop
from edge_idempotency_client.kept_request import KeptRequest
from edge_idempotency_client.options import Options

BUSY = Answer(503, {})
URL = "https://api.example.com/refunds"


class Time:
    """A clock that stands still, and a random source that gives the highest value and keeps the bounds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.bounds: list[tuple[float, float]] = []
        self.factor = 1.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: 5000.0 + self.now, self.uniform)

    def uniform(self, low: float, high: float) -> float:
        self.bounds.append((low, high))
        return high * self.factor


def exchange(time: Time, **options: float) -> Exchange:
    request = KeptRequest("ann", "key-1", "POST", URL, (), b"{}", kept_at=5000.0)
    return Exchange(request, Options(**options), time.clock())  # type: ignore[arg-type]  # attempts is an integer in each test


def wait(step: Step) -> float:
    assert isinstance(step, Send), step
    return step.wait


def stopped(step: Step) -> NoAnswer | Expired:
    assert isinstance(step, Stop), step
    return step.error


def test_full_jitter_between_zero_and_the_doubled_bound() -> None:
    time = Time()
    intent = exchange(time)
    assert intent.first() == Send(1, 0.0, None)
    waits = [wait(intent.answered(BUSY)) for _ in range(9)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert time.bounds == [(0.0, bound) for bound in waits]


def test_the_bound_stays_finite_with_many_attempts() -> None:
    time = Time()
    time.factor = 0.0
    intent = exchange(time, attempts=5000)
    intent.first()
    for _ in range(4999):
        assert wait(intent.unanswered("reset")) == 0.0
    assert max(high for _, high in time.bounds) == 30


def test_retry_after_comes_before_the_jitter() -> None:
    time = Time()
    intent = exchange(time)
    intent.first()
    assert wait(intent.answered(Answer(503, {"retry-after": "7"}))) == 7.5
    assert wait(intent.answered(Answer(503, {"retry-after": "9999"}))) == 61
    # 1970-01-01 01:23:30 is ten seconds after the clock's 5000.
    assert wait(intent.answered(Answer(503, {"retry-after": "Thu, 01 Jan 1970 01:23:30 GMT"}))) == 12
    # An attempt without an answer has no Retry-After.
    assert wait(intent.unanswered("reset")) == 4


def test_attempts_end_it() -> None:
    intent = exchange(Time(), attempts=3)
    intent.first()
    intent.unanswered("reset")
    intent.answered(BUSY)
    error = stopped(intent.answered(BUSY))
    assert isinstance(error, NoAnswer)
    assert (error.key, error.attempts, error.last) == ("key-1", 3, "the answer 503")
    assert "resume_pending()" in str(error)


def test_a_wait_that_does_not_fit_ends_it_at_once() -> None:
    time = Time()
    intent = exchange(time, budget=10.0)
    intent.first()
    time.now = 4.0
    assert wait(intent.answered(Answer(503, {"retry-after": "5"}))) == 5.5  # begins at 9.5
    time.now = 9.5
    error = stopped(intent.answered(Answer(503, {"retry-after": "5"})))
    assert isinstance(error, NoAnswer)
    assert error.attempts == 2
    assert "budget of 10 s" in str(error)


def test_an_attempt_may_begin_at_the_end_of_the_budget_but_not_after() -> None:
    for seconds, fits in ((9.5, True), (9.6, False)):
        time = Time()
        intent = exchange(time, budget=10.0)
        intent.first()
        time.now = seconds
        assert isinstance(intent.unanswered("reset"), Send) is fits


def test_the_budget_begins_with_the_first_attempt() -> None:
    time = Time()
    intent = exchange(time, budget=10.0)
    time.now = 100.0
    intent.first()
    time.now = 105.0
    assert isinstance(intent.unanswered("reset"), Send)


def test_expired_before_the_first_attempt() -> None:
    time = Time()
    time.now = 3600.0
    assert isinstance(exchange(time, expires_after=3600.0).first(), Send)
    time.now = 3601.0
    error = stopped(exchange(time, expires_after=3600.0).first())
    assert isinstance(error, Expired)
    assert (error.key, error.attempts) == ("key-1", 0)
    assert "forget(key)" in str(error)


def test_expired_between_two_attempts() -> None:
    time = Time()
    time.now = 3599.0
    intent = exchange(time, expires_after=3600.0)
    intent.first()
    assert isinstance(intent.unanswered("reset"), Send)
    error = stopped(intent.answered(Answer(503, {"retry-after": "2"})))
    assert isinstance(error, Expired)
    assert error.attempts == 2


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"budget": -1.0}, {"attempt_timeout": 0.0}, {"base": float("nan")}, {"cap": float("inf")}, {"methods": "POST"}],
)
def test_options_out_of_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]

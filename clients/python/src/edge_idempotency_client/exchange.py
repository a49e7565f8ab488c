"""When the next request of an intent is sent, where to, and when there is none: a state machine without input and output."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from .answers import Answer, Meaning, location_of, meaning, retry_after
from .errors import Expired, NoAnswer
from .kept_request import KeptRequest
from .options import Options

# A request that was kept later than so many seconds from now has a wrong time, because somebody has set the clock.
_CLOCKS_DIFFER = 300.0


@dataclass(frozen=True)
class Clock:
    """The sources of time and randomness, which tests replace."""

    monotonic: Callable[[], float] = time.monotonic
    since_1970: Callable[[], float] = time.time
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(frozen=True)
class Send:
    """The next step is a request.

    Attributes:
        number: The number of the attempt; 1 for the first.
        wait: Seconds to wait before.
        location: The URL to ask with GET, or None for the request itself.
    """

    number: int
    wait: float
    location: str | None


@dataclass(frozen=True)
class Renew:
    """The next step is to ask for credentials. If they differ, `Exchange.renewed` has the step after that; if not, the answer is final."""


@dataclass(frozen=True)
class Finish:
    """The answer is final."""


@dataclass(frozen=True)
class Stop:
    """There is no final answer, and no further request. `error` is for the caller."""

    error: NoAnswer | Expired


Step = Send | Renew | Finish | Stop


class Exchange:
    """The attempts of one request. Call `first`, and after each attempt `answered` or `unanswered`."""

    def __init__(self, request: KeptRequest, options: Options, clock: Clock) -> None:
        self._request = request
        self._options = options
        self._clock = clock
        self._location: str | None = None
        self._renewed = False
        self._began = 0.0
        self.attempts = 0

    def first(self) -> Send | Stop:
        """The first attempt, or Stop if the request has expired."""
        self._began = self._clock.monotonic()
        return self._send(0.0, "")

    def answered(self, answer: Answer) -> Step:
        """The step after an answer that has arrived whole."""
        may_renew = not self._renewed
        match meaning(answer, polling=self._location is not None, may_renew=may_renew):
            case Meaning.FINAL:
                return Finish()
            case Meaning.RENEW:
                return Renew()
            case Meaning.GONE:
                self._location = None
            case Meaning.CAME_BEFORE:
                location = location_of(answer, self._location or self._request.url)
                if location is None:
                    return Finish()
                self._location = location
            case Meaning.PROCESSING:
                self._location = location_of(answer, self._location or self._request.url) or self._location
        least = retry_after(answer.headers.get("retry-after"), self._clock.since_1970(), self._options.max_retry_after)
        return self._send(least + self._jitter(), f"the answer {answer.status}")

    def unanswered(self, what: str) -> Send | Stop:
        """The step after an attempt without a whole answer. `what` says what happened, for people to read."""
        return self._send(self._jitter(), what)

    def renewed(self) -> Send | Stop:
        """The step after Renew, if credentials gave other values."""
        self._renewed = True
        return self._send(0.0, "the answer 401")

    def _jitter(self) -> float:
        # A float cannot hold the powers that thousands of attempts would need, and the cap is reached long before.
        bound = min(self._options.cap, self._options.base * 2.0 ** min(self.attempts - 1, 63))
        return self._clock.uniform(0.0, bound)

    def expired(self, attempts: int, wait: float = 0.0) -> Expired | None:
        """The error if the request must not be sent after `wait` seconds. `attempts` is how many were sent. To ask at Location is harmless."""
        kept_for = self._clock.since_1970() - self._request.kept_at
        if self._location is not None or kept_for >= -_CLOCKS_DIFFER and kept_for + wait <= self._options.expires_after:
            return None
        return Expired(self._request.key, kept_for + wait, self._options.expires_after, attempts)

    def _send(self, wait: float, last: str) -> Send | Stop:
        if expired := self.expired(self.attempts, wait):
            return Stop(expired)
        if self.attempts >= self._options.attempts:
            return Stop(NoAnswer(self._request.key, self.attempts, last, f"attempts is {self._options.attempts}"))
        if self.attempts and self._clock.monotonic() + wait - self._began > self._options.budget:
            limit = f"the next one would begin after the budget of {self._options.budget:g} s"
            return Stop(NoAnswer(self._request.key, self.attempts, last, limit))
        self.attempts += 1
        return Send(self.attempts, wait, self._location)

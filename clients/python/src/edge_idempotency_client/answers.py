"""What an answer means: the table of clients/README.md, and `Retry-After`."""

from __future__ import annotations

import email.utils
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timezone
from urllib.parse import urljoin, urlsplit


@dataclass(frozen=True)
class Answer:
    """Status and headers of an answer that has arrived whole. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]

    def token(self, name: str) -> str:
        """The value of a header in lower case, or an empty text."""
        return self.headers.get(name, "").strip().lower()

    @property
    def replayed(self) -> bool:
        """Whether it is the kept result of an earlier request."""
        return self.token("idempotency-status") == "replayed" or self.token("idempotent-replayed") == "true"

    @property
    def kept(self) -> bool:
        """Whether the result is kept under the key, so that the same answer would come again."""
        return self.replayed or self.token("idempotency-status") == "stored"


class Meaning(enum.Enum):
    """What the client does with an answer."""

    PROCESSING = "ask at Location, or send the same again"
    CAME_BEFORE = "ask at Location, or give it to the caller"
    AGAIN = "send the same again"
    RENEW = "send the same again at once, if credentials gives other values; else it is final"
    GONE = "there is nothing at Location: send the request itself again"
    FINAL = "give it to the caller"


def meaning(answer: Answer, *, polling: bool, may_renew: bool) -> Meaning:
    """The first row that fits. `polling`: it came from Location. `may_renew`: the credentials were not renewed for this request yet."""
    if polling and answer.status == 404 and not answer.kept:
        return Meaning.GONE
    if answer.status == 202 and answer.token("idempotency-status") == "processing":
        return Meaning.PROCESSING
    if answer.status == 202 and answer.token("idempotency-status") in ("completed", "failed", "accepted"):
        return Meaning.CAME_BEFORE
    if advice := answer.token("idempotency-retry"):
        return Meaning.AGAIN if advice in ("same_key", "wait") else Meaning.FINAL
    if answer.status == 401 and may_renew:
        return Meaning.RENEW
    if answer.kept:
        return Meaning.FINAL
    if answer.status in (409, 425) and "retry-after" in answer.headers:
        return Meaning.AGAIN
    if answer.status in (429, 502, 503, 504):
        return Meaning.AGAIN
    return Meaning.FINAL


def retry_after(value: str | None, now: float, longest: float) -> float:
    """Seconds to wait at least, from 0 to `longest`.

    `value` is a number of seconds or a date (RFC 9110, section 10.2.3); what is neither counts as 0. `now` is seconds since 1970.
    """
    value = (value or "").strip()
    if re.fullmatch("[0-9]+", value):
        # A number with more digits than that is more than any bound.
        return min(longest, float(value[:300]))
    try:
        date = email.utils.parsedate_to_datetime(value)
        seconds = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() - now
    except (TypeError, ValueError, OverflowError, IndexError):
        return 0.0
    return min(longest, max(0.0, seconds))


def location_of(answer: Answer, url: str) -> str | None:
    """The absolute URL of `Location`, if it has the same origin (scheme, host, port) as `url`, the URL that gave the answer; else None."""
    location = answer.headers.get("location", "").strip()
    if not location:
        return None
    try:
        target = urljoin(url, location)
        same = _origin(target) == _origin(url) and "@" not in urlsplit(target).netloc
    except ValueError:
        return None
    return target.partition("#")[0] if same else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)

"""A request as the store keeps it, and what of a request is kept."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from .errors import InvalidRequest

KEY_HEADER = "Idempotency-Key"
ATTEMPT_HEADER = "X-Retry-Attempt"
# These headers have credentials, and are never kept.
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
# These headers belong to one connection or one transmission. The HTTP library writes them anew for each attempt.
_NOT_KEPT = frozenset({"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
_WRITTEN_BY_THE_CLIENT = frozenset({KEY_HEADER.lower(), ATTEMPT_HEADER.lower()})

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class KeptRequest:
    """A request that is sent until it has a final answer.

    Attributes:
        owner: Who made it: only a client of this owner sends it.
        key: The idempotency key. Two owners may have the same one: these are two requests.
        method: The method in capitals.
        url: The absolute URL (http or https), without a user and a password.
        headers: Name and value of each header, without credentials and without those that the client writes itself.
        body: The bytes of the body; empty if there is none.
        kept_at: When the request was kept first, in seconds since 1970.
    """

    owner: str
    key: str
    method: str
    url: str
    headers: Headers
    body: bytes = field(repr=False)
    kept_at: float

    def same_as(self, other: KeptRequest) -> bool:
        """True if the other one asks for the same: method, URL and body are equal. Headers may differ (a user agent, a trace)."""
        return (self.method, self.url, self.body) == (other.method, other.url, other.body)


def is_owner(value: object) -> bool:
    """Whether it names an owner. There is none by default: a request of nobody could be sent by anybody."""
    return isinstance(value, str) and bool(value.strip())


def new_key() -> str:
    """A new idempotency key: a random UUID (version 4)."""
    return str(uuid.uuid4())


def key_of(headers: Iterable[tuple[str, str]]) -> str | None:
    """The key that the caller gave the request, or None. Raises InvalidRequest if it is empty or there are several."""
    keys = [value for name, value in headers if name.lower() == KEY_HEADER.lower()]
    if not keys:
        return None
    if len(keys) > 1:
        raise InvalidRequest(f"the request has {len(keys)} headers {KEY_HEADER}: send one")
    key = keys[0].strip()
    if not key or not key.isascii() or not key.isprintable() or "," in key:
        raise InvalidRequest(f"{KEY_HEADER} is {keys[0]!r}: take 1 to 255 of the characters A-Z a-z 0-9 . _ ~ -, for example a UUID")
    return key


def check_url(url: str, key: str) -> str:
    """The URL without a user and a password. Raises InvalidRequest if it is not an absolute URL with http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest(f"the URL {url!r} is not an absolute URL with http or https: nothing was sent", key)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def without_secrets(headers: Headers, secret: Iterable[str]) -> Headers:
    """The headers that are kept. `secret` has further names of headers with credentials, in any case."""
    left_out = SECRET_HEADERS | {name.lower() for name in secret}
    return tuple((name, value) for name, value in headers if name.lower() not in left_out)


def repeatable(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers that belong to the request, not to a connection or to the client's own work."""
    return tuple((name, value) for name, value in headers if name.lower() not in _NOT_KEPT | _WRITTEN_BY_THE_CLIENT)

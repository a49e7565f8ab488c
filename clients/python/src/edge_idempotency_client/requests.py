"""An adapter for `requests.Session`, which retries until there is an answer. It needs the extra `requests`."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import requests
import requests.adapters
import urllib3

from .answers import Answer
from .attempt_thread import AttemptThread
from .blocking import BlockingSender, Credentials
from .errors import DamagedRecord, InvalidRequest, NoAnswer
from .exchange import Clock
from .information import IdempotencyInfo
from .kept_request import KEY_HEADER, Headers, KeptRequest, check_url, key_of, new_key, repeatable
from .options import Options
from .resuming import Resumed
from .sending import AttemptFailed, Intent, Outgoing, Reply
from .store import Store
from .urllib3_sockets import watch

__all__ = ["FinalRequestsResponse", "IdempotentAdapter", "RequestsNoAnswer"]

_Timeout = float | tuple[float | None, float | None] | urllib3.Timeout | None


class RequestsNoAnswer(NoAnswer, requests.ConnectionError):
    """NoAnswer of this adapter. It is a `requests.ConnectionError` as well, so that code which handles those handles it."""


class FinalRequestsResponse(requests.Response):
    """A final answer. A redirect is final, too: requests does not follow it, whatever `allow_redirects` says.

    Attributes:
        idempotency: What is known about the request; `idempotency_of(response)` gives the same.
    """

    idempotency: IdempotencyInfo

    @property
    def is_redirect(self) -> bool:
        return False


class IdempotentAdapter(requests.adapters.HTTPAdapter):
    """Sends each request with one of `options.methods`, or with a key, under one key until it has a final answer; other requests pass as they are.

        session.mount("https://api.example.com/", IdempotentAdapter(SqliteStore("requests.db"), owner=..., credentials=...))

    The response has an `IdempotencyInfo` as its attribute `idempotency`. The key is in the header `Idempotency-Key` of the prepared request, also
    after an error. The `timeout` of a call holds for the operations of each attempt, as ever in requests, and `options.attempt_timeout` for the
    whole attempt. The answer is read whole before the caller gets it, also with `stream=True`. The retries of urllib3 are off.

    A request raises RequestsNoAnswer, Expired, Aborted, InvalidRequest, KeyReused, OtherOwner, CredentialsError, StoreError or DamagedRecord.

    Args:
        store: Where requests are kept until they have their final answer, for example a SqliteStore. The caller closes it.
        owner: Who makes the requests of this client: all by which the API tells its callers apart, such as tenant, project and subject. It is
            kept with each request, and the client sends requests of this owner only.
        credentials: Returns who is logged in now, and the headers that prove it: `(owner, {"Authorization": ...})`. It is called before each
            attempt. If the owner is another one, nothing is sent. The headers are never kept.
        options: How it retries.
        pool_connections, pool_maxsize, pool_block: As in `requests.adapters.HTTPAdapter`.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        credentials: Credentials,
        options: Options | None = None,
        pool_connections: int = requests.adapters.DEFAULT_POOLSIZE,
        pool_maxsize: int = requests.adapters.DEFAULT_POOLSIZE,
        pool_block: bool = requests.adapters.DEFAULT_POOLBLOCK,
    ) -> None:
        self._sender = BlockingSender[_RequestsReceived](store, owner, options or Options(), credentials, Clock())
        super().__init__(pool_connections, pool_maxsize, max_retries=0, pool_block=pool_block)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        watch(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        watch(manager)
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: _Timeout = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        settings = {"timeout": timeout, "verify": verify, "cert": cert, "proxies": proxies}
        if not self._sender.options.takes(request.method or "", request.headers):
            return super().send(request, stream=stream, **settings)
        intent = _intent(request, self._sender.keeper.owner)
        try:
            received, info = self._sender.send(intent, self._transmit(settings))
        except NoAnswer as error:
            raise _no_answer(error, request) from error.__cause__
        return received.final(request, info)

    def resume_pending(
        self,
        session: requests.Session,
        *,
        concurrency: int = 16,
        each: Callable[[Resumed[requests.Response]], None] | None = None,
    ) -> list[Resumed[requests.Response]]:
        """Sends the kept requests of this owner that are not under way in this process, each with its key, and waits for all of them.

        A request of another owner is not sent, and stays: its error is OtherOwner.

        Args:
            session: Its certificates and proxies are used, and those of the environment if it trusts that.
            concurrency: How many are sent at a time.
            each: Is called with each result as soon as it is there, in the thread of the caller. An error that it raises ends
                the call, and the answers that it was not told stay in the store.

        Returns:
            The result of each request in the order in which they came: a response, or an error. Raises StoreError if the store cannot be read.
        """

        def finish(kept: KeptRequest) -> requests.Response:
            settings = session.merge_environment_settings(kept.url, {}, None, None, None)
            settings.pop("stream")  # each answer is read whole
            request = _prepared(kept.method, kept.url, (*kept.headers, (KEY_HEADER, kept.key)), kept.body)
            try:
                received, info = self._sender.resumed(kept, self._transmit(dict(settings)))
            except NoAnswer as error:
                raise _no_answer(error, request) from error.__cause__
            return received.final(request, info)

        return self._sender.resume(finish, each, concurrency)

    def pending(self) -> list[KeptRequest | DamagedRecord]:
        """The requests in the store, of all owners, the oldest first, with those that are under way. Raises StoreError."""
        return self._sender.keeper.records()

    def forget(self, key: str) -> bool:
        """Removes a request of this owner from the store; False if there is none. It does not end an attempt that is under way. Raises StoreError."""
        return self._sender.keeper.forget(key)

    def forget_owner(self, owner: str) -> None:
        """Removes all requests of an owner from the store, for the log-out. End those that are under way before. Raises StoreError."""
        self._sender.keeper.forget_owner(owner)

    def _transmit(self, settings: dict[str, Any]) -> Callable[[Outgoing, AttemptThread[Reply[_RequestsReceived]]], Reply[_RequestsReceived]]:
        def transmit(outgoing: Outgoing, running: AttemptThread[Reply[_RequestsReceived]]) -> Reply[_RequestsReceived]:
            prepared = _prepared(outgoing.method, outgoing.url, outgoing.headers, outgoing.body)
            attempt = {**settings, "timeout": _limited(settings.get("timeout"), outgoing.timeout)}
            try:
                response = requests.adapters.HTTPAdapter.send(self, prepared, stream=True, **attempt)
                try:
                    pieces = []
                    for piece in response.raw.stream(65536, decode_content=False):
                        running.check()
                        pieces.append(piece)
                except BaseException:
                    # The rest of the answer is still to come on this connection.
                    response.raw.close()
                    raise
                response.raw.release_conn()
            except ValueError:
                # The request is wrong (InvalidHeader, InvalidURL): it would be so again.
                raise
            except (OSError, urllib3.exceptions.HTTPError) as error:
                raise AttemptFailed(f"{type(error).__name__}: {error}") from error
            return _reply(response, b"".join(pieces))

        return transmit


@dataclass(frozen=True)
class _RequestsReceived:
    """A response of requests, with its body as it came."""

    response: requests.Response
    body: bytes

    def raw(self) -> urllib3.HTTPResponse:
        """The answer anew, so that its body can be read and decoded once more."""
        old = self.response.raw
        return urllib3.HTTPResponse(
            body=io.BytesIO(self.body),
            headers=old.headers,
            status=old.status,
            version=old.version,
            reason=old.reason,
            preload_content=False,
            original_response=old._original_response,  # the session reads its cookies there
            request_method="GET",  # the body is there, whatever the method was
        )

    def final(self, request: requests.PreparedRequest, info: IdempotencyInfo) -> requests.Response:
        """The response that the caller gets. It can be streamed, too."""
        final = FinalRequestsResponse()
        final.__dict__.update(self.response.__dict__)
        final.raw = self.raw()
        final.request = request
        final.idempotency = info
        return final


def _intent(request: requests.PreparedRequest, owner: str) -> Intent:
    headers = [(_text(name), _text(value)) for name, value in request.headers.items()]
    key = key_of(headers) or new_key()
    url = check_url(request.url or "", key)
    body = _whole(request.body, key)
    # The caller finds the key there after an error, and a layer above that sends the request again sends the same key.
    request.headers[KEY_HEADER] = key
    every = repeatable(headers)
    return Intent(KeptRequest(owner, key, (request.method or "").upper(), url, every, body, time.time()), every)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _whole(body: Any, key: str) -> bytes:
    """The bytes of a body: it may be bytes, a text, a file that is open, or an iterable of bytes."""
    if body is None or isinstance(body, bytes):
        return body or b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    pieces: list[Any] = [body.read()] if hasattr(body, "read") else list(body) if isinstance(body, Iterable) else [None]
    if not all(isinstance(piece, (bytes, bytearray, memoryview)) for piece in pieces):
        # A text would be sent in an encoding that nobody named.
        raise InvalidRequest(f"the body of the type {type(body).__name__} does not give bytes: open files with mode 'rb'", key)
    return b"".join(pieces)


def _prepared(method: str, url: str, headers: Headers, body: bytes) -> requests.PreparedRequest:
    return requests.Request(method, url, headers=dict(headers), data=body).prepare()


def _limited(timeout: Any, longest: float) -> Any:
    """The caller's timeout for one operation, at most as long as an attempt may take."""
    if isinstance(timeout, urllib3.Timeout):
        return timeout
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return tuple(longest if seconds is None else min(seconds, longest) for seconds in (connect, read))


def _reply(response: requests.Response, body: bytes) -> Reply[_RequestsReceived]:
    received = _RequestsReceived(response, body)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(Answer(response.status_code, headers), lambda: received.raw().read(decode_content=True), received)


def _no_answer(error: NoAnswer, request: requests.PreparedRequest) -> RequestsNoAnswer:
    told = RequestsNoAnswer(error.key or "", error.attempts, error.last, error.limit)
    told.request = request
    return told

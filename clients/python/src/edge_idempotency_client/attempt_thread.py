"""One attempt of a blocking client, with a limit that holds from its start to the last byte.

The timeouts of httpx and requests are for one operation on the socket, so a server that sends a byte now and then gets round them. Nothing in
the same thread can interrupt such a read. So the attempt runs in a thread of its own: the caller waits for it as long as the attempt may
take, and goes on when that time is over or somebody aborts. Then the attempt's socket is shut down, where it is known, so that the thread ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import socket
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from .abort import Abort
from .sending import AbortRequested, AttemptFailed

_T = TypeVar("_T")

_running = threading.local()


class AttemptThread(Generic[_T]):
    """Runs `work` in a new thread. `work` reads the whole answer, and calls `check` between two pieces of it."""

    def __init__(self, work: Callable[[AttemptThread[_T]], _T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._abandoned = False
        self._wake = threading.Event()
        self._finished = False
        self._result: _T | None = None
        self._error: BaseException | None = None

    def run(self, seconds: float, abort: Abort | None) -> _T:
        """The result of `work`. Raises what it raises, AttemptFailed when the seconds are over, and AbortRequested."""
        context = contextvars.copy_context()
        # The thread is a daemon, so that an abandoned attempt does not keep the process alive.
        thread = threading.Thread(target=context.run, args=(self._main,), name="edge-idempotency-attempt", daemon=True)
        end = abort.listen(self._wake.set) if abort else None
        try:
            thread.start()
            self._wake.wait(seconds)
        finally:
            if end:
                end()
            with self._lock:
                finished = self._finished
                self._abandoned = not finished
                left = self._socket if self._abandoned else None
            if left is not None:
                shut_down(left)
        if not finished:
            if abort and abort.aborted:
                raise AbortRequested
            raise AttemptFailed(f"no whole answer within {seconds:g} s")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it has finished without an error

    def check(self) -> None:
        """Raises AttemptFailed if nobody waits for this attempt any more."""
        if self._abandoned:
            raise AttemptFailed("the attempt was given up")

    def uses(self, connection: socket.socket) -> None:
        """Tells which socket the attempt uses. Raises AttemptFailed if nobody waits for it any more."""
        with self._lock:
            self._socket = connection
        self.check()

    def _main(self) -> None:
        _running.attempt = self
        result: _T | None = None
        error: BaseException | None = None
        try:
            result = self._work(self)
        except BaseException as caught:
            error = caught
        with self._lock:
            # The connection may serve somebody else from now on.
            self._socket = None
            self._result, self._error, self._finished = result, error, True
        self._wake.set()


def running_attempt() -> AttemptThread[object] | None:
    """The attempt whose thread this is, or None."""
    return getattr(_running, "attempt", None)


def shut_down(connection: socket.socket) -> None:
    """Ends a read or write of another thread on this socket. The TLS layer is left out, because the other thread is inside it."""
    # It may be closed, or not connected yet.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)

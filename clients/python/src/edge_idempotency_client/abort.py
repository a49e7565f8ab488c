"""How a thread ends what another thread sends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType

_current: ContextVar[Abort | None] = ContextVar("edge_idempotency_abort", default=None)


class Abort:
    """Ends requests that were begun inside its `with` block, from any thread. It is for the blocking clients only: with `asyncio` and `trio`
    cancel the task.

        abort = Abort()
        with abort:
            client.post(...)  # raises Aborted after another thread has called abort.abort()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._aborted = threading.Event()
        self._listeners: set[Callable[[], None]] = set()
        # Several threads may be inside the block; each resets its own context.
        self._entered = threading.local()

    @property
    def aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._aborted.is_set()

    def abort(self) -> None:
        """Ends the waits and attempts that are under way, and all that begin later inside the `with` block."""
        with self._lock:
            self._aborted.set()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def wait(self, seconds: float) -> bool:
        """Waits that long, or until `abort` is called; True if it was called."""
        return self._aborted.wait(seconds)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` as soon as `abort` is called, or at once if it was. The result ends that."""
        with self._lock:
            self._listeners.add(listener)
            aborted = self.aborted
        if aborted:
            listener()

        def end() -> None:
            with self._lock:
                self._listeners.discard(listener)

        return end

    def __enter__(self) -> Abort:
        tokens: list[Token[Abort | None]] = self._entered.__dict__.setdefault("tokens", [])
        tokens.append(_current.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _current.reset(self._entered.tokens.pop())


def current_abort() -> Abort | None:
    """The Abort whose `with` block this is, or None."""
    return _current.get()

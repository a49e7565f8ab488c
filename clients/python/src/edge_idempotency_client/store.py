"""Where requests are kept until they have a final answer: the interface, and the store in memory."""

from __future__ import annotations

import abc
import threading
from collections.abc import Hashable

from .errors import DamagedRecord
from .kept_request import KeptRequest


class Store(abc.ABC):
    """Keeps requests by their owner and their key. All methods may be called by several threads at once, and raise StoreError if they fail."""

    @property
    def place(self) -> Hashable:
        """Names what is kept where: two stores of a process with the same place share their records."""
        return id(self)

    @abc.abstractmethod
    def put(self, request: KeptRequest) -> KeptRequest | None:
        """Keeps a request. If its owner has one under its key already, that one stays and is returned; else the result is None.

        When it returns, the request is durable, as far as the medium is. Raises DamagedRecord if the record under the key is unreadable.
        """

    @abc.abstractmethod
    def get(self, owner: str, key: str) -> KeptRequest | None:
        """An owner's request of a key, or None. Raises DamagedRecord if its record is unreadable."""

    @abc.abstractmethod
    def remove(self, owner: str, key: str) -> bool:
        """Removes an owner's record of a key, damaged or not. False if there was none."""

    @abc.abstractmethod
    def records(self) -> list[KeptRequest | DamagedRecord]:
        """All records, of all owners, the oldest first. A record that cannot be read is there as a DamagedRecord."""


class MemoryStore(Store):
    """Keeps requests in memory. They are lost when the process ends, so nothing can be resumed after a restart."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str], KeptRequest] = {}
        self._lock = threading.Lock()

    def put(self, request: KeptRequest) -> KeptRequest | None:
        with self._lock:
            earlier = self._requests.setdefault((request.owner, request.key), request)
        return None if earlier is request else earlier

    def get(self, owner: str, key: str) -> KeptRequest | None:
        with self._lock:
            return self._requests.get((owner, key))

    def remove(self, owner: str, key: str) -> bool:
        with self._lock:
            return self._requests.pop((owner, key), None) is not None

    def records(self) -> list[KeptRequest | DamagedRecord]:
        with self._lock:
            return [*sorted(self._requests.values(), key=lambda request: request.kept_at)]

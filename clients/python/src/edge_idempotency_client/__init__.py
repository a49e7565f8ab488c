"""Retries requests safely: one `Idempotency-Key` for each intent, kept before it is sent, and sent again until there is an answer.

The transports for httpx are in `edge_idempotency_client.httpx`, the adapter for requests in `edge_idempotency_client.requests`. This module
imports neither library.
"""

from __future__ import annotations

from .abort import Abort
from .errors import Aborted, CredentialsError, DamagedRecord, Expired, IdempotencyError, InvalidRequest, KeyReused, NoAnswer, OtherOwner, StoreError
from .information import IdempotencyInfo, idempotency_of
from .kept_request import KeptRequest, new_key
from .options import Options
from .resuming import Resumed
from .sqlite_store import SqliteStore
from .store import MemoryStore, Store

__all__ = [
    "Abort",
    "Aborted",
    "CredentialsError",
    "DamagedRecord",
    "Expired",
    "IdempotencyError",
    "IdempotencyInfo",
    "InvalidRequest",
    "KeptRequest",
    "KeyReused",
    "MemoryStore",
    "NoAnswer",
    "Options",
    "OtherOwner",
    "Resumed",
    "SqliteStore",
    "Store",
    "StoreError",
    "idempotency_of",
    "new_key",
]

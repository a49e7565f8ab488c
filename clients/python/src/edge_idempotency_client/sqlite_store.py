"""The durable store: a file of SQLite."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .errors import DamagedRecord, StoreError
from .kept_request import Headers, KeptRequest
from .store import Store

_T = TypeVar("_T")

_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS kept_requests (
    key       TEXT PRIMARY KEY,
    method    TEXT NOT NULL,
    url       TEXT NOT NULL,
    headers   TEXT NOT NULL,  -- JSON: [[name, value], ...]
    body      BLOB NOT NULL,
    kept_at   REAL NOT NULL,  -- seconds since 1970
    checksum  BLOB NOT NULL   -- SHA-256 over the other columns: a damaged body is not sent
) WITHOUT ROWID"""
_COLUMNS = "key, method, url, headers, body, kept_at, checksum"


class SqliteStore(Store):
    """Keeps requests in a file of SQLite, which a request reaches before it is sent (`synchronous = FULL`). `with` and `close` close the file.

    Threads can share one store. Processes of one machine can share the file, each with a store of its own or with one from before a fork:
    SQLite locks the file, and a process waits up to 10 s for another one. The file must not be on a network file system, where SQLite's
    write-ahead log does not work. A new file can be read by its owner only; bodies are in it as they were sent.

    Args:
        path: The file. It is made if it is missing; its folder is not. SQLite makes two files beside it, with `-wal` and `-shm` added.

    Raises:
        StoreError: The file cannot be opened, or is none of this store. It is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()
        # A connection must not be used after a fork, so each process has its own. The one of the parent is never closed here.
        self._connections: dict[int, _Connection] = {}
        self._run("open", lambda connection: None, writes=False)

    @property
    def place(self) -> str:
        return str(self._path)

    def put(self, request: KeptRequest) -> KeptRequest | None:
        headers = json.dumps(request.headers)
        row = (request.key, request.method, request.url, headers, request.body, float(request.kept_at))

        def insert(connection: sqlite3.Connection) -> KeptRequest | DamagedRecord | None:
            added = connection.execute(
                f"INSERT INTO kept_requests ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (*row, _checksum(*row))
            )
            if added.rowcount == 1:
                return None
            return _find(connection, request.key)

        return _undamaged(self._run(f"keep the request with the key {request.key}", insert))

    def get(self, key: str) -> KeptRequest | None:
        return _undamaged(self._run(f"read the key {key}", lambda connection: _find(connection, key), writes=False))

    def remove(self, key: str) -> bool:
        statement = "DELETE FROM kept_requests WHERE key = ?"
        return self._run(f"remove the key {key}", lambda connection: connection.execute(statement, (key,)).rowcount > 0)

    def records(self) -> list[KeptRequest | DamagedRecord]:
        statement = f"SELECT {_COLUMNS} FROM kept_requests ORDER BY kept_at"
        rows = self._run("list the requests", lambda connection: connection.execute(statement).fetchall(), writes=False)
        return [_read(row) for row in rows]

    def close(self) -> None:
        """Closes the file for this process. The next use opens it again."""
        if connection := self._connections.pop(os.getpid(), None):
            with connection.lock:
                connection.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, what: str, work: Callable[[sqlite3.Connection], _T], writes: bool = True) -> _T:
        # `setdefault` is one step, so that threads that come here first at the same time get the same connection.
        own = self._connections.get(os.getpid()) or self._connections.setdefault(os.getpid(), _Connection(self._path))
        try:
            with own.lock:
                connection = own.opened()
                # A reader does not wait for a writer.
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                try:
                    result = work(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
                return result
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the store {self._path} could not {what}: {error}") from error


class _Connection:
    """The connection of a process, opened at its first use. Its users hold the lock."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._open: sqlite3.Connection | None = None

    def opened(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = _open(self._path)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _open(path: Path) -> sqlite3.Connection:
    # SQLite itself would make a file that others can read. It gives the files beside it the same rights.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        # A text that is not UTF-8 is no error here, because one damaged record must not hide the others; its checksum does not fit.
        connection.text_factory = lambda value: value.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise sqlite3.DatabaseError(f"it is not a store of this version of the client (user_version {version}); take another file")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _checksum(key: str, method: str, url: str, headers: str, body: bytes, kept_at: float) -> bytes:
    parts = [text.encode("utf-8", "surrogateescape") for text in (key, method, url, headers)]
    digest = hashlib.sha256()
    for part in (*parts, repr(kept_at).encode(), body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _find(connection: sqlite3.Connection, key: str) -> KeptRequest | DamagedRecord | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM kept_requests WHERE key = ?", (key,)).fetchone()
    return None if row is None else _read(row)


def _undamaged(found: KeptRequest | DamagedRecord | None) -> KeptRequest | None:
    if isinstance(found, DamagedRecord):
        raise found
    return found


def _read(row: tuple[object, ...]) -> KeptRequest | DamagedRecord:
    key, method, url, headers, body, kept_at, checksum = row
    if not (
        isinstance(key, str)
        and isinstance(method, str)
        and isinstance(url, str)
        and isinstance(headers, str)
        and isinstance(body, bytes)
        and isinstance(kept_at, float)
    ):
        return DamagedRecord(str(key), "a column has a value of another type")
    if checksum != _checksum(key, method, url, headers, body, kept_at):
        return DamagedRecord(key, "its checksum does not fit")
    pairs: Headers = tuple((name, value) for name, value in json.loads(headers))
    return KeptRequest(key, method, url, pairs, body, kept_at)

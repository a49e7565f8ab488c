"""The durable store: a file of SQLite."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .errors import DamagedRecord, StoreError
from .kept_request import Headers, KeptRequest, is_owner
from .store import Store

_T = TypeVar("_T")

# The connections of this process, and those whose locks are held for a fork. Whoever forks or adds one holds the lock.
_connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
_held: list[_Connection] = []
_forking = threading.Lock()
# Whoever makes a file holds this lock, and the lock of a connection.
_making = threading.Lock()

_VERSION = 2
_TABLE = """
CREATE TABLE IF NOT EXISTS kept_requests (
    owner     TEXT NOT NULL,
    key       TEXT NOT NULL,
    method    TEXT NOT NULL,
    url       TEXT NOT NULL,
    headers   TEXT NOT NULL,  -- JSON: [[name, value], ...]
    body      BLOB NOT NULL,
    kept_at   REAL NOT NULL,  -- seconds since 1970
    checksum  BLOB NOT NULL,  -- SHA-256 over the other columns: a damaged body is not sent
    PRIMARY KEY (owner, key)
) WITHOUT ROWID"""
_COLUMNS = "owner, key, method, url, headers, body, kept_at, checksum"


class SqliteStore(Store):
    """Keeps requests in a file of SQLite, which a request reaches before it is sent (`synchronous = FULL`). `with` and `close` close the file.

    Threads can share one store. Processes of one machine can share the file, each with a store of its own or with one from before `os.fork`:
    SQLite locks the file, and a process waits up to 10 s for another one. While a process has a store open it must not open and close the file
    by other means than SQLite, because that ends its locks. The file must not be on a network file system, where SQLite's write-ahead log does
    not work. A new file can be read by its owner only; bodies are in it as they were sent.

    Args:
        path: The file. It is made if it is missing; its folder is not. SQLite makes two files beside it, with `-wal` and `-shm` added.

    Raises:
        StoreError: The file cannot be opened, or is none of this store. It is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()
        self._connection = _Connection(self._path)
        self._run("open", lambda connection: None, writes=False)

    @property
    def place(self) -> str:
        return str(self._path)

    def put(self, request: KeptRequest) -> KeptRequest | None:
        headers = json.dumps(request.headers)
        row = (request.owner, request.key, request.method, request.url, headers, request.body, float(request.kept_at))

        def insert(connection: sqlite3.Connection) -> KeptRequest | DamagedRecord | None:
            added = connection.execute(
                f"INSERT INTO kept_requests ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (*row, _checksum(*row))
            )
            if added.rowcount == 1:
                return None
            return _find(connection, request.owner, request.key)

        return _undamaged(self._run(f"keep the request with the key {request.key}", insert))

    def get(self, owner: str, key: str) -> KeptRequest | None:
        return _undamaged(self._run(f"read the key {key}", lambda connection: _find(connection, owner, key), writes=False))

    def remove(self, owner: str, key: str) -> bool:
        statement = "DELETE FROM kept_requests WHERE owner = ? AND key = ?"
        return self._run(f"remove the key {key}", lambda connection: connection.execute(statement, (owner, key)).rowcount > 0)

    def records(self) -> list[KeptRequest | DamagedRecord]:
        statement = f"SELECT {_COLUMNS} FROM kept_requests ORDER BY kept_at"
        rows = self._run("list the requests", lambda connection: connection.execute(statement).fetchall(), writes=False)
        return [_read(row) for row in rows]

    def close(self) -> None:
        """Closes the file for this process. The next use opens it again."""
        with self._connection.lock:
            self._connection.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, what: str, work: Callable[[sqlite3.Connection], _T], writes: bool = True) -> _T:
        try:
            with self._connection.lock:
                connection = self._connection.opened()
                try:
                    # A reader does not wait for a writer. After Ctrl-C during this wait the transaction may be open.
                    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                    result = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                return result
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the store {self._path} could not {what}: {error}") from error


class _Connection:
    """The connection of a store, opened at its first use. Its users hold the lock."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._open: sqlite3.Connection | None = None
        self._process = 0
        with _forking:
            _connections.add(self)

    def opened(self) -> sqlite3.Connection:
        if self._open is None:
            self._open, self._process = _open(self._path), os.getpid()
        elif self._process != os.getpid():
            # SQLite would believe that it has the locks of the parent.
            raise OSError("the process was forked without os.fork while the store was open: open the store after the fork")
        return self._open

    def close(self) -> None:
        if self._open is not None and self._process == os.getpid():
            self._open.close()
            self._open = None


def _before_fork() -> None:
    """Closes all connections. A child gets SQLite's list of locks, but not the locks: it would write into a log that the parent removes."""
    _forking.acquire()
    for connection in list(_connections):
        connection.lock.acquire()
        _held.append(connection)
        connection.close()


def _after_fork() -> None:
    """Lets parent and child open connections of their own."""
    if _forking.locked():
        while _held:
            _held.pop().lock.release()
        _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _make(path: Path) -> None:
    # SQLite itself would make a file that others can read. It gives the files beside it the same rights. A file that is there is not opened:
    # to close it would end all locks that this process has on it. For the same reason no other thread may open a file that is still new.
    with _making, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _open(path: Path) -> sqlite3.Connection:
    _make(path)
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


def _checksum(owner: str, key: str, method: str, url: str, headers: str, body: bytes, kept_at: float) -> bytes:
    parts = [text.encode("utf-8", "surrogateescape") for text in (owner, key, method, url, headers)]
    digest = hashlib.sha256()
    for part in (*parts, repr(kept_at).encode(), body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _find(connection: sqlite3.Connection, owner: str, key: str) -> KeptRequest | DamagedRecord | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM kept_requests WHERE owner = ? AND key = ?", (owner, key)).fetchone()
    return None if row is None else _read(row)


def _undamaged(found: KeptRequest | DamagedRecord | None) -> KeptRequest | None:
    if isinstance(found, DamagedRecord):
        raise found
    return found


def _read(row: tuple[object, ...]) -> KeptRequest | DamagedRecord:
    owner, key, method, url, headers, body, kept_at, checksum = row
    if not (
        isinstance(owner, str)
        and isinstance(key, str)
        and isinstance(method, str)
        and isinstance(url, str)
        and isinstance(headers, str)
        and isinstance(body, bytes)
        and isinstance(kept_at, float)
    ):
        return DamagedRecord(str(owner), str(key), "a column has a value of another type")
    if not is_owner(owner):
        return DamagedRecord(owner, key, "it has no owner")
    if checksum != _checksum(owner, key, method, url, headers, body, kept_at):
        return DamagedRecord(owner, key, "its checksum does not fit")
    pairs: Headers = tuple((name, value) for name, value in json.loads(headers))
    return KeptRequest(owner, key, method, url, pairs, body, kept_at)

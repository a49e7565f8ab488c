"""The stores: what they keep, several threads and processes, damage, and files that are none."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_idempotency_client import DamagedRecord, KeptRequest, MemoryStore, SqliteStore, Store, StoreError

KINDS: list[Callable[[Path], Store]] = [lambda folder: MemoryStore(), lambda folder: SqliteStore(folder / "requests.db")]


def request(key: str, kept_at: float = 1.5, body: bytes = b"\x00\xff{}") -> KeptRequest:
    return KeptRequest(key, "POST", "https://api.example.com/orders?x=ä", (("Content-Type", "text/plain"), ("X-A", "ÿ\udcff")), body, kept_at)


@pytest.fixture(params=KINDS, ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = request.param(tmp_path)
    return made


def test_put_get_remove(store: Store) -> None:
    assert store.get("a") is None
    assert store.put(request("a")) is None
    assert store.get("a") == request("a")
    assert store.remove("a")
    assert not store.remove("a")
    assert (store.get("a"), store.records()) == (None, [])


def test_the_first_request_of_a_key_stays(store: Store) -> None:
    store.put(request("a", 1.0))
    assert store.put(request("a", 2.0, b"other")) == request("a", 1.0)
    assert store.records() == [request("a", 1.0)]


def test_the_oldest_comes_first(store: Store) -> None:
    for key, kept_at in (("b", 2.0), ("c", 3.0), ("a", 1.0)):
        store.put(request(key, kept_at))
    assert [record.key for record in store.records()] == ["a", "b", "c"]


def test_threads_at_once(store: Store) -> None:
    first: list[str] = []

    def work(number: int) -> None:
        for index in range(40):
            store.put(request(f"{number}-{index}"))
            if store.put(request(f"shared-{index}")) is None:
                first.append(f"shared-{index}")
            if index % 2:
                store.remove(f"{number}-{index}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.records()) == 8 * 20 + 40
    assert sorted(first) == sorted({f"shared-{index}" for index in range(40)})


def test_it_is_there_after_the_process_was_killed(tmp_path: Path) -> None:
    code = """
import os, sys
from edge_idempotency_client import KeptRequest, SqliteStore
SqliteStore(sys.argv[1]).put(KeptRequest("a", "POST", "https://api.example.com/", (), b"body", 1.0))
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "requests.db"
    sources = os.pathsep.join(sys.path)
    assert subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": sources}).returncode == -9
    assert SqliteStore(path).records() == [KeptRequest("a", "POST", "https://api.example.com/", (), b"body", 1.0)]


def _put_many(path: str, number: int) -> None:
    own = SqliteStore(path)
    for index in range(50):
        own.put(request(f"{number}-{index}"))
        own.put(request(f"shared-{index}"))


def test_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "requests.db"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_put_many, args=(str(path), number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(SqliteStore(path).records()) == 3 * 50 + 50


# Python 3.12 warns of a fork beside threads, which earlier tests may have left.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_store_from_before_a_fork(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    store.put(request("before"))
    child = os.fork()
    if child == 0:
        try:
            store.put(request("child"))
            # The child has a connection of its own, beside the one of the parent.
            os._exit(0 if len(store._connections) == 2 else 2)
        except BaseException:
            os._exit(1)
    store.put(request("parent"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {record.key for record in store.records()} == {"before", "child", "parent"}
    assert len(store._connections) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("body = zeroblob(4)", "checksum"),
        ("body = 'text'", "type"),
        ("headers = '{'", "checksum"),
        ("headers = CAST(x'ff' AS TEXT)", "checksum"),
        ("kept_at = 'yesterday'", "type"),
        ("url = 'https://evil.example.com/'", "checksum"),
        ("checksum = x'00'", "checksum"),
    ],
)
def test_a_damaged_record_is_told_and_stays(tmp_path: Path, change: str, reason: str) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    for key in ("a", "b", "c"):
        store.put(request(key))
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute(f"UPDATE kept_requests SET {change} WHERE key = 'b'")
    connection.close()
    records = {record.key: record for record in store.records()}
    damaged = records.pop("b")
    assert isinstance(damaged, DamagedRecord)
    assert reason in damaged.reason
    assert records == {"a": request("a"), "c": request("c")}
    with pytest.raises(DamagedRecord, match="forget"):
        store.get("b")
    with pytest.raises(DamagedRecord):
        store.put(request("b"))
    assert len(store.records()) == 3
    assert store.remove("b")
    assert len(store.records()) == 2


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes " * 1000)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        SqliteStore(path)
    assert path.read_text() == "my notes " * 1000


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
    with pytest.raises(StoreError, match="take another file"):
        SqliteStore(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("orders",)]
    connection.close()


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        SqliteStore(tmp_path / "missing" / "requests.db")


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    store.put(request("a"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"requests.db": 0o600, "requests.db-wal": 0o600, "requests.db-shm": 0o600}


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    store.put(request("a"))
    # SQLite gives the error of a full disk when the file would have more pages than this.
    store._connections[os.getpid()].opened().execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match="full"):
        store.put(request("b", body=bytes(100_000)))
    assert store.records() == [request("a")]


def test_close_and_use_again(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "requests.db") as store:
        store.put(request("a"))
    store.close()
    # What SQLite keeps beside the file has gone into it.
    assert [path.name for path in tmp_path.iterdir()] == ["requests.db"]
    assert store.records() == [request("a")]
    assert store.place == SqliteStore(tmp_path / "." / "requests.db").place

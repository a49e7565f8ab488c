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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_idempotency_client import DamagedRecord, KeptRequest, MemoryStore, SqliteStore, Store, StoreError

KINDS: list[Callable[[Path], Store]] = [lambda folder: MemoryStore(), lambda folder: SqliteStore(folder / "requests.db")]


def request(key: str, kept_at: float = 1.5, body: bytes = b"\x00\xff{}") -> KeptRequest:
    return KeptRequest("ann", key, "POST", "https://api.example.com/orders?x=ä", (("Content-Type", "text/plain"), ("X-A", "ÿ\udcff")), body, kept_at)


@pytest.fixture(params=KINDS, ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = request.param(tmp_path)
    return made


def test_put_get_remove(store: Store) -> None:
    assert store.get("ann", "a") is None
    assert store.put(request("a")) is None
    assert store.get("ann", "a") == request("a")
    assert store.remove("ann", "a")
    assert not store.remove("ann", "a")
    assert (store.get("ann", "a"), store.records()) == (None, [])


def test_the_first_request_of_a_key_stays(store: Store) -> None:
    store.put(request("a", 1.0))
    assert store.put(request("a", 2.0, b"other")) == request("a", 1.0)
    assert store.records() == [request("a", 1.0)]


def test_one_key_of_several_owners(store: Store) -> None:
    owners = ["ann", "Ann", "bob", "ann' OR 1=1 --", "ä 🍵", "x" * 500]
    for owner in owners:
        assert store.put(replace(request("k"), owner=owner, body=owner.encode())) is None
    for owner in owners:
        found = store.get(owner, "k")
        assert found
        assert found.body == owner.encode()
    assert store.remove("ann", "k")
    assert store.get("ann", "k") is None
    assert sorted(str(record.owner) for record in store.records()) == sorted(owners[1:])


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
                store.remove("ann", f"{number}-{index}")

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
SqliteStore(sys.argv[1]).put(KeptRequest("ann", "a", "POST", "https://api.example.com/", (), b"body", 1.0))
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "requests.db"
    sources = os.pathsep.join(sys.path)
    assert subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": sources}).returncode == -9
    assert SqliteStore(path).records() == [KeptRequest("ann", "a", "POST", "https://api.example.com/", (), b"body", 1.0)]


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


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, which may kill itself."""
    begin = "import os, sys\nfrom edge_idempotency_client import KeptRequest, SqliteStore\n"
    begin += "def request(key): return KeptRequest('ann', key, 'POST', 'https://api.example.com/', (), b'', 1.0)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments_ = [str(argument) for argument in arguments]
    return subprocess.run([sys.executable, "-c", begin + code, *arguments_], env=environment, capture_output=True, text=True, timeout=60)


def test_two_stores_of_one_file_in_a_process_keep_its_locks(tmp_path: Path) -> None:
    """Another process that closes the file takes itself for the last user, and removes the log, if this process has lost its locks."""
    path = tmp_path / "requests.db"
    other = f"import os, sys\nfrom edge_idempotency_client import SqliteStore\nwith SqliteStore({str(path)!r}) as store: store.records()"
    code = """
import subprocess
first, second = SqliteStore(sys.argv[1]), SqliteStore(sys.argv[1])
first.put(request("before"))
subprocess.run([sys.executable, "-c", sys.argv[2]], check=True)
first.put(request("after"))
os.kill(os.getpid(), 9)
"""
    assert run(code, path, other).returncode == -9
    assert {record.key for record in SqliteStore(path).records()} == {"before", "after"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_store_from_before_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "requests.db"
    code = """
store = SqliteStore(sys.argv[1])
store.put(request("before"))
closed, go_on = os.pipe()
done, told = os.pipe()
child = os.fork()
if child == 0:
    store.put(request("child 1"))
    os.write(told, b"1")
    os.read(closed, 1)
    store.put(request("child 2"))
    os.kill(os.getpid(), 9)
os.close(told)
assert os.read(done, 1), "the child has failed"
store.put(request("parent"))
store.close()
os.write(go_on, b"1")
os.waitpid(child, 0)
os.kill(os.getpid(), 9)
"""
    ended = run(code, path)
    assert ended.returncode == -9, ended.stderr
    assert {record.key for record in SqliteStore(path).records()} == {"before", "child 1", "child 2", "parent"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_while_threads_use_the_store(tmp_path: Path) -> None:
    code = """
import threading
store = SqliteStore(sys.argv[1])
def work(number):
    for index in range(100):
        store.put(request(f"{number}-{index}"))
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for number in range(10):
    child = os.fork()
    if child == 0:
        store.put(request(f"child-{number}"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
for thread in threads: thread.join()
print(len(store.records()))
"""
    ended = run(code, tmp_path / "requests.db")
    assert ended.stdout.strip() == "310", ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_resumes_what_was_under_way_in_its_parent(tmp_path: Path) -> None:
    code = """
from edge_idempotency_client.keeper import Keeper
keeper = Keeper(SqliteStore(sys.argv[1]), "ann")
with keeper.under_way("a"):
    child = os.fork()
    free = keeper.claim("a")
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not free
    elif not free:
        os._exit(1)
    else:
        keeper.release("a")
if child == 0:
    # The end of the call that the parent began has not blocked the key.
    os._exit(0 if keeper.claim("a") else 2)
"""
    ended = run(code, tmp_path / "requests.db")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT"])
def test_ctrl_c_in_the_store_leaves_no_transaction_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """A signal during a wait of SQLite becomes KeyboardInterrupt after it: the statement may have been done."""
    path = tmp_path / "requests.db"
    store = SqliteStore(path)

    class Interrupted:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            done = self._connection.execute(sql, *parameters)
            if sql == statement:
                raise KeyboardInterrupt
            return done

    with monkeypatch.context() as change:
        real = store._connection.opened()
        change.setattr(store._connection, "opened", lambda: Interrupted(real))
        with pytest.raises(KeyboardInterrupt):
            store.put(request("a"))
    store.put(request("b"))
    # Another user of the file does not wait for a lock either.
    assert SqliteStore(path).put(request("c")) is None


def test_a_commit_that_fails_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "requests.db")
    real = store._connection.opened()

    class Failing:
        in_transaction = property(lambda self: real.in_transaction)

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return real.execute(sql, *parameters)

    with monkeypatch.context() as change:
        change.setattr(store._connection, "opened", Failing)
        with pytest.raises(StoreError, match="disk I/O error"):
            store.put(request("a"))
    assert store.records() == []
    store.put(request("a"))


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
        store.get("ann", "b")
    with pytest.raises(DamagedRecord):
        store.put(request("b"))
    assert len(store.records()) == 3
    assert store.remove("ann", "b")
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
    store._connection.opened().execute("PRAGMA max_page_count = 1")
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

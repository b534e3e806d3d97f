"""Drivers' errors become ours; their texts, which may quote content, are not passed on."""

import gc
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, make_url

from roocontext import Store
from roocontext.errors import (
    DistributionRefused,
    ForeignDatabase,
    HistoryCorrupt,
    InvalidOption,
    RooContextError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from roocontext.store.engine import forks
from roocontext.store.engine.citus import distribute
from roocontext.store.engine.database import ATTEMPTS, Database
from roocontext.store.engine.driver_errors import UniqueViolation, raise_ours, translated
from roocontext.store.engine.engines import engine_of

SECRET = "the text of a message"


def _sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError(SECRET)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_SOMETHING"
    return error


@pytest.mark.parametrize(
    ("error", "kind", "unknown"),
    [
        (_sqlite(sqlite3.SQLITE_READONLY), StoreReadOnly, False),
        (_sqlite(sqlite3.SQLITE_READONLY_DBMOVED), StoreReadOnly, False),
        (_sqlite(sqlite3.SQLITE_PERM), StoreReadOnly, False),
        (_sqlite(sqlite3.SQLITE_FULL), StoreFull, False),
        (_sqlite(sqlite3.SQLITE_NOTADB), ForeignDatabase, False),
        (_sqlite(sqlite3.SQLITE_CORRUPT), HistoryCorrupt, False),
        (_sqlite(sqlite3.SQLITE_CORRUPT_INDEX), HistoryCorrupt, False),
        (_sqlite(sqlite3.SQLITE_BUSY), StoreUnavailable, False),
        (_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreUnavailable, False),
        (_sqlite(sqlite3.SQLITE_CANTOPEN), StoreUnavailable, False),
        (psycopg.errors.ReadOnlySqlTransaction(SECRET), StoreReadOnly, False),
        (psycopg.errors.InsufficientPrivilege(SECRET), StoreReadOnly, False),
        (psycopg.errors.DiskFull(SECRET), StoreFull, False),
        (psycopg.errors.DataCorrupted(SECRET), HistoryCorrupt, False),
        (psycopg.errors.IndexCorrupted(SECRET), HistoryCorrupt, False),
        (psycopg.errors.UndefinedTable(SECRET), StoreUnavailable, False),
        (psycopg.errors.LockNotAvailable(SECRET), StoreUnavailable, False),
        (psycopg.errors.AdminShutdown(SECRET), StoreUnavailable, True),
        (psycopg.errors.CrashShutdown(SECRET), StoreUnavailable, True),
        (psycopg.errors.ConnectionFailure(SECRET), StoreUnavailable, True),
        (psycopg.OperationalError(SECRET), StoreUnavailable, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_driver_error_has_its_own_type(error, kind, unknown):
    with pytest.raises(RooContextError) as ours:
        raise_ours(error)
    assert type(ours.value) is kind
    assert ours.value.outcome_unknown is unknown
    assert SECRET not in f"{ours.value!r} {ours.value} {ours.value.facts}"
    assert ours.value.__suppress_context__


@pytest.mark.parametrize(
    "error", [_sqlite(sqlite3.SQLITE_CONSTRAINT_UNIQUE), psycopg.errors.UniqueViolation(SECRET)]
)
def test_taken_key_is_its_own_error(error):
    with pytest.raises(UniqueViolation) as ours, translated():
        raise error
    assert SECRET not in str(ours.value)


def test_other_errors_pass_unchanged():
    with pytest.raises(KeyError), translated():
        raise KeyError


NO_DATABASES = (
    *("", "a\0b", "mysql://localhost/x", "://", "no such scheme://x"),
    *("\ud800.db", "postgresql://u:\udc80@h/x", "postgresql://h/x?application_name=\ud800"),
    URL.create("sqlite", database="a\0b"),
    URL.create("postgresql", host="h", password="a\0b"),
)


@pytest.mark.parametrize("url", NO_DATABASES, ids=ascii)
def test_url_of_no_database_is_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption):
        Store.open(url)
    assert list(tmp_path.iterdir()) == []


def test_url_and_a_path_are_the_same_file(tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.create("one")
    for url in (str(path), f"sqlite:///{path}", make_url(f"sqlite:///{path}")):
        with Store.open(url, upgrade=False) as store:
            assert store.session("one").id == "one"


@pytest.mark.parametrize("url", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_memory_store_is_not_shared(url):
    with Store.open(url) as store, Store.open(url) as other:
        store.create("one")
        assert other.sessions() == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later ones cannot share caches")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_memory_store_is_not_shared_if_caches_are():
    sqlite3.enable_shared_cache(True)
    try:
        test_memory_store_is_not_shared(":memory:")
    finally:
        sqlite3.enable_shared_cache(False)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database without a schema."""
    database = Database(engine_of(tmp_path / "raw.db", create=True))
    yield database
    database.close()


BUSY = StoreUnavailable("busy", code=sqlite3.SQLITE_BUSY)


@pytest.mark.parametrize(
    ("error", "failures", "runs"),
    [
        (BUSY, 2, 3),
        (StoreUnavailable("deadlock", code="40P01"), ATTEMPTS, ATTEMPTS),
        (StoreFull("full", code=sqlite3.SQLITE_FULL), 1, 1),
    ],
    ids=["busy", "deadlock each time", "another fault"],
)
def test_transaction_is_repeated_after_a_conflict_until_a_limit(database, error, failures, runs):
    run: list[int] = []

    def fail(tx: object) -> str:
        run.append(1)
        if len(run) <= failures:
            raise error
        return "done"

    if failures < runs:
        assert database.write(fail) == "done"
    else:
        with pytest.raises(type(error)):
            database.write(fail)
    assert len(run) == runs


def test_failed_transaction_is_rolled_back_and_its_connection_reused(database):
    def fail(tx: object) -> None:
        tx.command("CREATE TABLE half (id INTEGER)")
        raise KeyError

    with pytest.raises(KeyError):
        database.write(fail)
    assert database.write(lambda tx: tx.command("SELECT count(*) FROM sqlite_master")) == (0,)


def test_closed_store_is_refused(tmp_path):
    store = Store.open(tmp_path / "store.db")
    chat = store.create()
    store.close()
    store.close()
    for call in (store.sessions, chat.view, lambda: chat.append("user", "late")):
        with pytest.raises(StoreUnavailable):
            call()


def test_store_that_nobody_refers_to_is_forgotten(tmp_path):
    known = len(forks._watched)
    for number in range(5):
        with Store.open(tmp_path / "store.db") as store:
            store.create(f"{number}").append("user", "hello")
    del store
    gc.collect()
    assert len(forks._watched) <= known


def test_store_works_without_fork_and_user_ids(tmp_path):
    script = """
import os, sys
del os.fork, os.register_at_fork, os.getuid, os.geteuid
sys.modules["pwd"] = sys.modules["fcntl"] = None
from roocontext import ContextManager, Store
from roocontext.reports.health import examined
with Store.open(sys.argv[1]) as store:
    chat = store.create("one")
    chat.append("user", "hello")
    ContextManager("gpt-4o").manage(chat, system="Be brief.")
    chat.redact(1)
with Store.open(sys.argv[1], read_only=True) as store:
    assert store.session("one").verify().ok
assert "bad" not in {finding.status for finding in examined(sys.argv[1])}
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "store.db")], check=True)


def test_no_connection_is_left_open(tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.create().append("user", "hello")
    assert [found.name for found in tmp_path.iterdir()] == ["store.db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_failure_within_a_cluster_leaves_the_outcome_unknown():
    """A coordinator reports most failures of its nodes so, those during a COMMIT too."""
    with pytest.raises(StoreUnavailable) as raised:
        raise_ours(psycopg.errors.InternalError_(SECRET))
    assert raised.value.outcome_unknown
    assert raised.value.code == "XX000"
    with pytest.raises(StoreUnavailable) as raised:
        raise_ours(psycopg.errors.InternalError_(SECRET), sent=False)
    assert not raised.value.outcome_unknown


def test_store_that_is_on_no_cluster_is_not_distributed(tmp_path, postgres_url):
    file = tmp_path / "store.db"
    Store.open(file).close()
    with pytest.raises(DistributionRefused, match="SQLite"):
        distribute(file)
    for dry_run in (True, False):
        with pytest.raises(DistributionRefused, match="no extension"):
            distribute(postgres_url, dry_run=dry_run)
    with pytest.raises(InvalidOption, match="shards"):
        distribute(postgres_url, shards=0)

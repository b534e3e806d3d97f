"""Opening: what is a store is opened, what is not is refused by name, and left as it is."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from sqlalchemy.sql.elements import CompilerElement

from migration.conftest import Raw
from roocontext import NewMessage, Plan, Session, Store
from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    RooContextError,
    SchemaMismatch,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from roocontext.log.counting import BYTES
from roocontext.store.engine import database
from roocontext.store.engine.schema import REVISION
from support.dialogue import counts_of


def _database(table: str) -> bytes:
    """A file of SQLite with this table."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE {table} (id INTEGER)")
        return connection.serialize()


NOT_STORES: dict[str, bytes] = {
    "text": b"Dear diary,\n" * 100,
    "two bytes": b"SQ",
    "half a header": b"SQLite format 3",
    "zeros": bytes(8192),
    "a header and noise": b"SQLite format 3\0" + bytes(range(256)) * 32,
    **{f"a table {name}": _database(name) for name in ("customers", "entries", "sessions")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with nothing else in it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def test_open_without_upgrade_creates_nothing(folder):
    missing = folder / "missing.db"
    for path, options in (
        *((missing, {"upgrade": False}), (missing, {"read_only": True})),
        (folder / "no" / "such" / "folder.db", {}),
        *((folder, options) for options in ({}, {"upgrade": False}, {"read_only": True})),
    ):
        with pytest.raises(StoreUnavailable):
            Store.open(path, **options)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("options", [{"upgrade": False}, {"read_only": True}], ids=str)
def test_open_without_upgrade_leaves_an_empty_database_empty(raw, options):
    raw.run("SELECT 1")
    with pytest.raises(SchemaMismatch) as refused:
        Store.open(raw.url, **options)
    assert (refused.value.current, refused.value.wanted) == (None, REVISION)
    assert _tables(raw) == []
    Store.open(raw.url).close()
    Store.open(raw.url, **options).close()


@pytest.mark.parametrize("content", [b"", b"S"], ids=["no byte", "one byte"])
def test_empty_file_becomes_a_store(folder, content):
    """To SQLite a file of a single byte is empty too."""
    path = folder / "empty.db"
    path.write_bytes(content)
    for options in ({"upgrade": False}, {"read_only": True}):
        with pytest.raises(SchemaMismatch):
            Store.open(path, **options)
        assert path.read_bytes() == content
    with Store.open(path) as store:
        assert store.create().append("user", "hello").seq == 1


@pytest.mark.parametrize("options", [{}, {"upgrade": False}, {"read_only": True}], ids=str)
@pytest.mark.parametrize("content", NOT_STORES.values(), ids=NOT_STORES)
def test_file_that_is_no_store_is_refused(folder, content, options):
    path = folder / "other"
    path.write_bytes(content)
    with pytest.raises(ForeignDatabase):
        Store.open(path, **options)
    assert path.read_bytes() == content
    assert list(folder.iterdir()) == [path]


def test_foreign_tables_on_a_server_are_refused(raw):
    """Other tables are fine on a server, except those that take our names."""
    raw.run("CREATE TABLE sessions (id INTEGER)")
    with pytest.raises(ForeignDatabase):
        Store.open(raw.url)
    assert _tables(raw) == ["sessions"]
    raw.run("DROP TABLE sessions")
    raw.run("CREATE TABLE customers (id INTEGER)")
    if raw.engine == "postgres":
        with Store.open(raw.url) as store:
            store.create("ours")
    else:
        with pytest.raises(ForeignDatabase):
            Store.open(raw.url)
    assert "customers" in _tables(raw)


def test_missing_schema_of_a_server_is_named_with_what_to_do(postgres_url):
    with pytest.raises(
        StoreUnavailable, match=r"No schema of the search_path .* Create the schema"
    ):
        Store.open(_with_option(postgres_url, "search_path=nowhere"))


def test_unknown_schema_version_is_refused(raw):
    Store.open(raw.url).close()
    raw.run("UPDATE roocontext_version SET version_num = '0000'")
    with pytest.raises(SchemaMismatch):
        Store.open(raw.url)
    assert raw.run("SELECT version_num FROM roocontext_version") == [("0000",)]


def test_new_stores_are_created_by_threads_at_once(folder):
    def create(number: int) -> int:
        with Store.open(folder / f"{number}.db") as store, Store.open(":memory:") as other:
            other.create("first").append("user", "hello")
            return store.create("first").append("user", "hello").seq

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(create, range(12))) == [1] * 12


def test_damaged_file_is_refused_by_name(folder):
    path = folder / "damaged.db"
    with Store.open(path) as store:
        store.create("long").append_many([{"role": "user", "content": "x" * 3_000}] * 100)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:8192] + bytes(16_384) + whole[24_576:]):
        path.write_bytes(damaged)
        with pytest.raises(RooContextError):
            _read_everything(path)
        assert path.read_bytes() == damaged


def test_file_whose_damage_sqlite_cannot_name_in_utf_8_is_refused_by_name(folder):
    path = folder / "damaged.db"
    Store.open(path).close()
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE clearings", b"CREATE \xe5ABLE clearings")
    )
    with pytest.raises(HistoryCorrupt, match=r"damaged\.db"):
        Store.open(path)


def _read_everything(path: Path) -> None:
    with Store.open(path) as store:
        chat = store.session("long")
        if not chat.verify().ok:
            raise RooContextError("verify() tells")
        chat.view()


def test_new_files_belong_to_their_owner(folder):
    before = os.umask(0)
    try:
        with Store.open(folder / "mine.db") as store:
            store.create().append("user", "hello")
            modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("mine.db", "mine.db-wal", "mine.db-shm"), 0o600)


def test_path_may_have_any_characters(folder):
    for name in ("a?mode=ro", "a#b", "a%20b", "a b", "ä.db", "a'b\"c"):
        with Store.open(folder / name) as store:
            store.create("one").append("user", "hello")
        assert (folder / name).stat().st_size
        with Store.open(folder / name, read_only=True) as store:
            assert len(store.session("one").view().messages) == 1


def test_opening_again_compiles_nothing(folder, monkeypatch):
    with Store.open(folder / "store.db") as store:
        store.create("one").append("user", "hello")
        store.session("one").view()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(CompilerElement, "compile", refuse)
    monkeypatch.setattr(database, "create_engine", refuse)
    with Store.open(folder / "store.db") as store:
        assert len(store.session("one").view().messages) == 1


# Restored by another tool


@pytest.fixture
def restored(folder: Path) -> Path:
    """A store that `VACUUM INTO` has written: it is in rollback-journal mode."""
    with Store.open(folder / "store.db") as store:
        store.create("one").append("user", "hello")
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(folder / "restored.db"),))
    assert _journal_mode(folder / "restored.db") == "delete"
    return folder / "restored.db"


def _journal_mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_restored_store_is_put_back_into_wal(restored):
    with Store.open(restored, upgrade=False) as store, closing(sqlite3.connect(restored)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
        assert store.session("one").append("user", "beside a reader").seq == 2
        assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    assert _journal_mode(restored) == "wal"


def test_reading_a_restored_store_changes_nothing(restored):
    before = restored.read_bytes()
    with Store.open(restored, read_only=True) as store:
        assert len(store.session("one").view().messages) == 1
    assert restored.read_bytes() == before


def test_reader_in_the_way_does_not_keep_a_restored_store_closed(restored):
    with closing(sqlite3.connect(restored)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        with Store.open(restored) as store:
            assert len(store.session("one").view().messages) == 1
    Store.open(restored).close()
    assert _journal_mode(restored) == "wal"


# Read-only

WRITES: dict[str, Callable[[Store, Session], Any]] = {
    "create": lambda store, _: store.create("new"),
    "append": lambda _, chat: chat.append("user", "no"),
    "append_many": lambda _, chat: chat.append_many([NewMessage("user", "no")] * 2),
    "commit": lambda _, chat: chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4], "short")),
    "rewind": lambda _, chat: chat.rewind(1),
    "undo": lambda _, chat: chat.undo(),
    "pin": lambda _, chat: chat.pin(1),
    "rename": lambda _, chat: chat.set_title("no"),
    "fork": lambda _, chat: chat.fork(2, session_id="new"),
    "redact": lambda _, chat: chat.redact(1),
    "purge": lambda store, chat: store.purge(chat.id),
    "rebuild": lambda _, chat: chat.rebuild(),
}


@pytest.fixture(params=["file", "postgres", "postgres session", "postgres role"])
def only_readable(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Any, dict[str, bool]]]:
    """A store that can be read but not written, by an option or because the server says so."""
    if request.param == "file":
        url: Any = str(tmp_path / "store.db")
        _fill(url)
        yield url, {"read_only": True}
        return
    url = request.getfixturevalue("postgres_url")
    _fill(url)
    if request.param == "postgres":
        yield url, {"read_only": True}
    elif request.param == "postgres session":
        yield _with_option(url, "default_transaction_read_only=on"), {}
    else:
        with _reader(url) as role:
            yield _with_option(url, f"role={role}"), {}


def test_read_only_file_is_opened_for_reading(only_readable):
    url, options = only_readable
    with Store.open(url, **options) as store:
        chat = store.session("old")
        before = chat.view(), list(chat.audit()), chat.head(), store.sessions()
        assert chat.verify().ok
        assert chat.commit(Plan.condense(before[0], [1, 2, 3, 4], "short"), dry_run=True)
        for name, write in WRITES.items():
            with pytest.raises(StoreReadOnly) as refused:
                write(store, chat)
            assert not refused.value.outcome_unknown, name
        assert (chat.view(), list(chat.audit()), chat.head(), store.sessions()) == before


def _fill(url: str) -> None:
    with Store.open(url) as store:
        chat = store.create("old")
        chat.append_many([{"role": "user", "content": f"{i} " * 20} for i in range(6)])
        chat.rewind(5)


def _with_option(url: str, setting: str) -> Any:
    return make_url(url).update_query_dict({"options": f"-c {setting}"})


@contextmanager
def _reader(url: str) -> Iterator[str]:
    """A role that may read the store and nothing else."""
    name = f"reader_{make_url(url).database}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
        yield name
        admin.execute(f"DROP OWNED BY {name}")
        admin.execute(f"DROP ROLE {name}")


# No room

ENTRIES = 20


class _Disk:
    """Room for the files of SQLite, as far as its connections are concerned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._connect = sqlite3.connect
        self._connections: list[sqlite3.Connection] = []
        self._pages = 1 << 30
        monkeypatch.setattr(sqlite3, "connect", self._connected)

    def leave(self, pages: int) -> None:
        """From now on a file may have so many pages, or as many as it has."""
        self._pages = pages
        for connection in self._connections:
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                connection.execute(f"PRAGMA max_page_count = {pages}")

    def _connected(self, *args: Any, **options: Any) -> sqlite3.Connection:
        connection = self._connect(*args, **options)
        connection.execute(f"PRAGMA max_page_count = {self._pages}")
        self._connections.append(connection)
        return connection


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> _Disk:
    """A disk that can be full."""
    return _Disk(monkeypatch)


BIG = "x" * 100_000
COMPANIONS = [NewMessage("assistant", "y" * 10_000)]
TOO_BIG: dict[str, Callable[[Session], Any]] = {
    "append": lambda chat: chat.append("user", BIG),
    "append_many": lambda chat: chat.append_many([NewMessage("user", BIG)] * 3),
    "commit": lambda chat: chat.commit(
        Plan.condense(chat.view(), range(1, ENTRIES + 1), "short", companions=COMPANIONS)
    ),
    "fork": lambda chat: chat.fork(),
    "note": lambda chat: chat.set_metadata({"much": BIG}),
}


@pytest.mark.parametrize("path", ["file", ":memory:"])
@pytest.mark.parametrize("operation", TOO_BIG.values(), ids=TOO_BIG)
def test_full_disk_is_a_typed_error_and_loses_nothing(operation, path, disk, tmp_path):
    with Store.open(path if path == ":memory:" else tmp_path / path) as store:
        chat = store.create("full")
        chat.append_many([NewMessage("user", f"{i} " * 500) for i in range(ENTRIES)])
        before = chat.view(), list(chat.audit()), chat.head(), store.sessions()
        disk.leave(1)
        with pytest.raises(StoreFull) as refused:
            operation(chat)
        assert not refused.value.outcome_unknown
        assert (chat.view(), list(chat.audit()), chat.head(), store.sessions()) == before
        assert chat.verify().ok
        disk.leave(1 << 30)
        operation(chat)
        assert chat.append("user", "there is room again").new
        assert chat.verify().ok


@pytest.mark.parametrize("path", ["file", ":memory:"])
def test_full_disk_does_not_stop_counting(path, disk, tmp_path):
    with Store.open(path if path == ":memory:" else tmp_path / path) as store:
        chat = store.create("full")
        chat.append_many([NewMessage("user", f"{i}") for i in range(400)])
        disk.leave(1)
        counts = counts_of(chat, BYTES)
        assert chat.tokens(BYTES) == sum(counts.values()) > 0
        with pytest.raises(StoreFull):
            chat.append("user", BIG)
        disk.leave(1 << 30)
        assert counts_of(chat, BYTES) == counts


def test_full_disk_refuses_a_new_store(disk, tmp_path):
    for pages in range(1, 25, 3):
        disk.leave(pages)
        try:
            Store.open(tmp_path / "new.db").close()
        except StoreFull:
            continue
        assert pages > 10
        break
    disk.leave(1 << 30)
    with Store.open(tmp_path / "new.db") as store:
        assert store.create().append("user", "there is room").seq == 1


def _tables(raw: Raw) -> list[str]:
    query = (
        "SELECT name FROM sqlite_master ORDER BY 1"
        if raw.engine == "file"
        else "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    return [row[0] for row in raw.run(query)]

"""Looking at an SQLite file: nothing is left behind, nothing torn or stale is told."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from roocontext import Session, Store
from roocontext.errors import HistoryCorrupt, StoreReadOnly, StoreUnavailable
from roocontext.store.engine import database, files, sqlite_files

SOMEBODY = 65_534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that nobody has open."""
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.create("one").append("user", "first")
    return path


@pytest.fixture
def as_stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on this process is not the file's owner, as far as the system tells."""
    return lambda: monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)


@pytest.fixture
def seen(path: Path, as_stranger: Callable[[], None]) -> Iterator[Session]:
    """The session, looked at by somebody else."""
    as_stranger()
    with Store.open(path, read_only=True) as store:
        yield store.session("one")


def _names(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir())


def _said(chat: Session) -> list[str]:
    return [str(message.content) for message in chat.view().messages]


def test_a_look_of_the_owner_leaves_nothing(path: Path) -> None:
    before = path.read_bytes()
    with Store.open(path, read_only=True) as store:
        assert _said(store.session("one")) == ["first"]
        with pytest.raises(StoreReadOnly):
            store.create("two")
    assert _names(path) == ["store.db"]
    assert path.read_bytes() == before


def test_a_look_of_somebody_else_makes_nothing(path: Path, seen: Session) -> None:
    before = path.read_bytes()
    assert _said(seen) == ["first"]
    with pytest.raises(StoreReadOnly):
        seen.append("user", "no")
    assert _names(path) == ["store.db"]
    assert path.read_bytes() == before


def test_who_may_not_write_leaves_nothing_by_trying(
    path: Path, as_stranger: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_stranger()
    monkeypatch.setattr(files, "is_writable", lambda _path: False)
    with Store.open(path) as store:
        assert _said(store.session("one")) == ["first"]
        with pytest.raises(StoreReadOnly):
            store.session("one").append("user", "no")
        assert _names(path) == ["store.db"]


def test_what_is_written_meanwhile_is_seen_at_once(path: Path, seen: Session) -> None:
    assert _said(seen) == ["first"]
    for words in ("second", "third"):
        with Store.open(path) as store:
            store.session("one").append("user", words)
            assert _said(seen)[-1] == words
        assert _said(seen)[-1] == words


def test_what_was_changed_under_a_read_is_not_told(path: Path, seen: Session) -> None:
    def read_torn() -> None:
        with seen._database.read(), Store.open(path) as store:
            store.session("one").append("user", "second")

    with pytest.raises(StoreUnavailable, match=r"store\.db' was changed while it was read"):
        read_torn()
    assert _said(seen) == ["first", "second"]


def test_what_only_seems_damaged_is_not_called_so(path: Path, seen: Session) -> None:
    def read_torn() -> None:
        with seen._database.read():
            with Store.open(path) as store:
                store.session("one").append("user", "second")
            raise HistoryCorrupt

    with pytest.raises(StoreUnavailable, match="was changed"):
        read_torn()


def test_a_commit_that_stays_in_the_log_harms_no_read(path: Path, seen: Session) -> None:
    with Store.open(path) as store, seen._database.read() as tx:
        store.session("one").append("user", "second")
        assert tx.command("SELECT max(seq) FROM entries") == (1,)
    assert _said(seen) == ["first", "second"]


@pytest.mark.parametrize("log", ["-wal", "-journal"])
def test_a_file_with_a_log_is_not_at_rest(path: Path, log: str) -> None:
    assert files.at_rest(path)
    files.companion_file(path, log).touch()
    assert files.at_rest(path)
    files.companion_file(path, log).write_bytes(b"x")
    assert files.at_rest(path) is None


def test_a_file_that_has_just_been_changed_is_waited_for(path: Path) -> None:
    path.chmod(0o640)
    state = files.at_rest(path)
    assert state is not None
    assert time.time_ns() - state.changed >= files.SETTLED_NS


def test_a_log_that_nobody_else_can_use(path: Path, as_stranger: Callable[[], None]) -> None:
    """Taking it in would leave a file of the stranger's, so it is left to the owner."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sessions SET title = 'new'")
        connection.commit()
        copies = {name: files.companion_file(path, name).read_bytes() for name in ("", "-wal")}
    for name, content in copies.items():
        files.companion_file(path, name).write_bytes(content)
    as_stranger()
    with pytest.raises(StoreUnavailable, match=r"wait in .*store\.db-wal"):
        Store.open(path, read_only=True)
    assert _names(path) == ["store.db", "store.db-wal"]


def test_a_lock_that_is_held_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite_files, database):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"holds the write lock.*BUSY.* seconds"):
            store.session("one").append("user", "late")


def test_where_the_clock_counts_seconds_a_change_is_waited_for_longer() -> None:
    fine, coarse = (files.FileState(1, 2, 3, 4, at) for at in (1_500_000_001, 2_000_000_000))
    assert files.settling(fine) == files.SETTLED_NS
    assert files.settling(coarse) > 2_000_000_000

"""Reading an SQLite file: nothing is changed, and nothing that belongs to somebody else is left."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.errors import StoreReadOnly, StoreUnavailable

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


def _names(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir())


def test_owner_reads_and_changes_nothing(path):
    before = path.read_bytes()
    with Store.open(path, read_only=True) as store:
        chat = store.session("one")
        assert [message.content for message in chat.view().messages] == ["first"]
        with pytest.raises(StoreReadOnly):
            store.create("two")
    assert path.read_bytes() == before
    with Store.open(path) as store:
        store.session("one").append("user", "second")
    assert _names(path) == ["store.db"]


def test_read_only_store_sees_new_writes_at_once(path):
    with Store.open(path, read_only=True) as reading:
        seen = reading.session("one")
        for words in ("second", "third"):
            with Store.open(path) as store:
                store.session("one").append("user", words)
                assert seen.view().messages[-1].content == words
            assert seen.view().messages[-1].content == words


def test_file_of_another_user_is_refused(path, as_stranger):
    as_stranger()
    with pytest.raises(StoreUnavailable, match=r"store\.db' belongs to another user"):
        Store.open(path, read_only=True)
    assert _names(path) == ["store.db"]


def test_unwritable_file_of_another_user_is_refused(path, as_stranger, monkeypatch):
    as_stranger()
    with Store.open(path) as store:  # a shared file, which this user may write
        store.session("one").append("user", "second")
    monkeypatch.setattr(os, "access", lambda _path, _right: False)
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        Store.open(path)
    assert _names(path) == ["store.db"]


def test_files_left_by_root_belong_to_the_owner(path):
    if os.geteuid() != 0:
        return  # nobody else may give a file away
    os.chown(path, SOMEBODY, SOMEBODY)
    with Store.open(path, read_only=True) as store:
        assert len(store.session("one").view().messages) == 1
        owners = {found.stat().st_uid for found in path.parent.iterdir()}
    assert owners == {SOMEBODY}


def test_lock_held_by_another_process_is_a_typed_error(path, monkeypatch):
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path) as store:
        _be_impatient(store, monkeypatch)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"Another process holds.*BUSY.* seconds"):
            store.session("one").append("user", "late")


def test_lock_held_by_another_thread_is_a_typed_error(path, monkeypatch):
    inside, over = threading.Event(), threading.Event()

    def hold(_tx: object) -> None:
        inside.set()
        over.wait()

    with Store.open(path) as store, Store.open(path) as other:
        thread = threading.Thread(target=other._database.write, args=(hold,))
        thread.start()
        inside.wait()
        _be_impatient(store, monkeypatch)
        with pytest.raises(StoreUnavailable, match=r"Another thread of this process holds"):
            store.session("one").append("user", "late")
        assert len(store.session("one").view().messages) == 1
        over.set()
        thread.join()


def _be_impatient(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    object.__setattr__(store._database._engine, "patience_s", 0)
    store._database.lookup(lambda tx: tx.command("PRAGMA busy_timeout = 0"))

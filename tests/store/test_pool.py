"""The pool of a store's connections: how many there are, and what happens when all are in use."""

import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import InvalidOption, PoolExhausted, StoreClosed, StoreUnavailable


def _pid(store: Store) -> Any:
    return store._database.lookup(lambda tx: tx.command("SELECT pg_backend_pid()"))


def test_exhausted_pool_is_a_typed_error(postgres_url):
    options = {"pool_size": 1, "max_overflow": 1, "pool_timeout": 0.05}
    with Store.open(postgres_url, **options) as store, ExitStack() as reading:
        for _ in range(2):
            reading.enter_context(store._database.read())
        with pytest.raises(PoolExhausted, match=r"All 2 connections.*0\.05 seconds") as refused:
            store.sessions()
        assert (refused.value.pool_size, refused.value.max_overflow) == (1, 1)
        assert not refused.value.outcome_unknown
        reading.close()
        assert store.sessions() == []


def test_error_that_is_kept_takes_no_connection(postgres_url, monkeypatch):
    def refuse() -> None:
        raise StoreUnavailable

    options = {"pool_size": 2, "max_overflow": 0, "pool_timeout": 0.05}
    with Store.open(postgres_url, **options) as store, store._database.read():
        connections = store._database._connections
        with monkeypatch.context() as patch:
            patch.setattr(connections, "_engine", replace(connections._engine, connect=refuse))
            with pytest.raises(StoreUnavailable) as kept:
                store.sessions()
        assert store.sessions() == []
        assert kept.value


def test_more_threads_than_connections_wait_for_each_other(postgres_url):
    with Store.open(postgres_url, pool_size=2, max_overflow=0) as store:
        chat = store.create()
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda number: chat.append("user", f"{number}"), range(64)))
        assert chat.head_seq() == 64


def test_pages_hold_no_connection_in_between(postgres_url):
    with Store.open(postgres_url, pool_size=1, max_overflow=0, pool_timeout=0.05) as store:
        chat = store.create()
        chat.append_many([{"role": "user", "content": "hello"}] * 6)
        internals = chat.internals
        for pages in (internals.pages(2), internals.audit_pages(2), internals.stored()):
            for _ in pages:
                chat.append("user", "meanwhile")
        assert chat.verify().ok


def test_sqlite_pool_has_no_limit(tmp_path):
    options = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0}
    with Store.open(tmp_path / "store.db", **options) as store, ExitStack() as reading:
        for _ in range(3):
            reading.enter_context(store._database.read())
        assert store.create().append("user", "hello").seq == 1


def test_old_connection_is_replaced(postgres_url):
    with Store.open(postgres_url, pool_recycle=0) as store:
        first = _pid(store)
        time.sleep(0.01)
        assert _pid(store) != first
    with Store.open(postgres_url) as store:
        assert _pid(store) == _pid(store)


def test_connection_is_taken_though_no_file_can_be_opened(postgres_url):
    with Store.open(postgres_url) as store:
        assert store.sessions() == []
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(free := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            assert store.sessions() == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_file_that_is_no_longer_in_place_is_not_written(tmp_path):
    path, moved = tmp_path / "store.db", tmp_path / "moved.db"
    with Store.open(path) as store:
        chat = store.create()
        path.rename(moved)
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            chat.append("user", "lost")
        path.touch()
        with pytest.raises(StoreUnavailable, match="was replaced by another file"):
            chat.append("user", "lost too")
        moved.replace(path)
        assert chat.append("user", "stored").seq == 1
    with Store.open(path) as store:
        assert [message.content for message in store.session(chat.id).view().messages] == ["stored"]


def test_store_in_memory_is_closed_after_the_calls_that_run():
    store = Store.open(":memory:")
    with ThreadPoolExecutor(1) as threads:
        with store._database.read() as tx:
            closing = threads.submit(store.close)
            with pytest.raises(TimeoutError):
                closing.result(0.1)
            assert tx.command("SELECT 1") == (1,)
        closing.result(30)
    with pytest.raises(StoreClosed):
        store.sessions()


def test_connection_returned_after_close_is_closed(postgres_url):
    inside, go_on = threading.Event(), threading.Event()

    def read(tx: Any) -> Any:
        inside.set()
        go_on.wait()
        return tx.connection

    store = Store.open(postgres_url)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(store._database.snapshot, read)
        inside.wait()
        store.close()
        go_on.set()
        assert reading.result().closed
    with pytest.raises(StoreClosed):
        store.sessions()


@pytest.mark.parametrize(
    "option",
    [
        *({"pool_size": wrong} for wrong in (0, -1, 1.5, "5", True)),
        *({"max_overflow": wrong} for wrong in (-2, None)),
        *({"pool_timeout": wrong} for wrong in (-1, None, float("nan"), float("inf"))),
        *({"pool_recycle": wrong} for wrong in (-1, "no")),
        {"durability": "Full"},
    ],
    ids=str,
)
def test_wrong_options_are_refused(option):
    with pytest.raises(InvalidOption) as refused:
        Store.open(":memory:", **option)
    assert refused.value.name in option

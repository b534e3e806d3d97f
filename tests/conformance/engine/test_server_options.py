"""Settings of a store on PostgreSQL: how long they last, and which ones a caller may give."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.numeric import FloatLoader, NumericLoader
from sqlalchemy import make_url, text

from roocontext import Plan, Session, Store
from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.engine import migrate
from support.citus_server import UNSAFE, Citus
from support.pgbouncer import bouncers, pooled

SHOWN = ("synchronous_commit", "lock_timeout", "statement_timeout", "app.tenant")
SEEN = "SELECT " + ", ".join(f"coalesce(current_setting('{name}', true), '')" for name in SHOWN)
TABLE = "CREATE TABLE seen (synchronous text, lock_timeout text, timeout text, tenant text)"
FUNCTION = (
    # As its owner, because on the nodes of a cluster no role has rights on the table.
    "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
    f" $$ BEGIN INSERT INTO seen {SEEN}; RETURN NULL; END $$"
)
PASSED_ON = [
    "SET LOCAL citus.propagate_set_commands = 'local'",
    "SET LOCAL app.tenant = 'acme'",
]
"""As a cluster needs it, which passes on nothing but SET LOCAL. A plain server takes it too."""
TRIGGER = "CREATE TRIGGER watched AFTER INSERT ON entries EXECUTE FUNCTION watch()"


@pytest.fixture
def admin(postgres: Any, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody who sees with which settings entries are written, on the nodes of a cluster too."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for node in _nodes(postgres, postgres_url):
            with psycopg.connect(node, autocommit=True) as one:
                one.execute(TABLE)
        for statement in (UNSAFE, FUNCTION, TRIGGER):
            connection.execute(statement)
        yield connection


def _nodes(postgres: Any, url: str) -> list[str]:
    if not isinstance(postgres, Citus):
        return [url]
    database = make_url(url).database
    return [postgres.on_node(number, database) for number in range(len(postgres.nodes))]


def _seen(postgres: Any, url: str) -> set[tuple[str, ...]]:
    found = set()
    for node in _nodes(postgres, url):
        with psycopg.connect(node, autocommit=True) as admin:
            rows = admin.execute("SELECT synchronous, lock_timeout, timeout, tenant FROM seen")
            found |= set(rows.fetchall())
            admin.execute("TRUNCATE seen")
    return found


def _write_in_all_ways(chat: Session) -> None:
    chat.append("user", "one")
    chat.append_many([{"role": "user", "content": f"{number}"} for number in range(9)])
    chat.set_title("a title")
    chat.commit(Plan.truncate(chat.view(), [2, 3], "M"))
    chat.rewind(1)


@pytest.mark.parametrize(("durability", "commit"), [("full", "on"), ("normal", "off")])
@pytest.mark.parametrize("default", ["on", "off"])
def test_durability_and_lock_timeout_are_set_for_each_write(
    postgres, admin, postgres_url, durability, commit, default
):
    name = make_url(postgres_url).database
    admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = {default}")
    with Store.open(postgres_url, durability=durability, lock_timeout=2.5) as store:
        _write_in_all_ways(store.create("s"))
        assert _seen(postgres, postgres_url) == {(commit, "2500ms", "0", "")}
        left = store._database.lookup(lambda tx: tx.rows(text(SEEN)))
        assert left == [(default, "0", "0", "")]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_are_unicode_whatever_encoding_clients_have(postgres, encoding, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    url = postgres.empty()
    with Store.open(url) as store:
        store.create(title="\u4e2d")
        assert store.sessions()[0].title == "\u4e2d"
    postgres.drop(url)


def test_numbers_are_whole_whatever_an_application_makes_of_them(postgres_url):
    psycopg.adapters.register_loader("numeric", FloatLoader)
    try:
        with Store.open(postgres_url) as store:
            store.create().append("user", "hello")
            assert store.overview()[0].stats.messages == 1
    finally:
        psycopg.adapters.register_loader("numeric", NumericLoader)


def test_write_waits_for_the_lock_timeout(postgres_url):
    with Store.open(postgres_url, lock_timeout=0.1) as store:
        chat = store.create("held")
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR UPDATE")
            for write in (lambda: chat.append("user", "late"), lambda: chat.set_title("late")):
                with pytest.raises(StoreUnavailable, match="holds a lock") as refused:
                    write()
                assert not refused.value.outcome_unknown
        assert chat.append("user", "now").seq == 1


def test_store_is_created_on_a_server_that_quotes_all_names(postgres):
    url = postgres.empty()
    quoting = make_url(url).update_query_dict({"options": "-c quote_all_identifiers=on"})
    with Store.open(quoting) as store:
        assert store.create().append("user", "first").seq == 1
    postgres.drop(url)


def test_upgrade_is_waited_for_as_long_as_it_takes(postgres):
    url = postgres.empty()
    with ThreadPoolExecutor(1) as threads, psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [migrate._UPGRADE_LOCK])
        opening = threads.submit(Store.open, url, lock_timeout=0.01, statement_timeout=0.5)
        time.sleep(0.7)
        assert not opening.done()
        other.rollback()
        opening.result().close()
    postgres.drop(url)


def test_statements_of_the_caller_come_with_each_transaction(postgres, admin, postgres_url):
    tenant = "SELECT set_config('app.tenant', $1, true)"
    on_begin = ["SELECT 1", (tenant, ["acme"]), *PASSED_ON]
    with Store.open(postgres_url, on_begin=on_begin, statement_timeout=7) as store:
        chat = store.create("s")
        _write_in_all_ways(chat)
        assert _seen(postgres, postgres_url) == {("on", "10s", "7s", "acme")}
        shown = text(SEEN)
        read = store._database
        for look in (read.lookup, read.snapshot):
            ((_, _, *found),) = look(lambda tx: tx.rows(shown))
            assert found == ["7s", "acme"]
        assert [len(rows) for rows in read.lookup(lambda tx: tx.all([(shown, {})] * 2))] == [1, 1]
        first = chat.append("user", "once", client_id="once")
        assert chat.append("user", "once", client_id="once").seq == first.seq
        assert chat.verify().ok
        assert read.single(lambda tx: tx.command("SHOW statement_timeout")) == ("0",)


def test_append_works_on_a_server_without_the_function(postgres_url):
    with Store.open(postgres_url) as store:
        chat = store.create("s")
        with psycopg.connect(postgres_url) as owner:
            owner.execute("DROP FUNCTION roocontext_append_v1")
        assert [chat.append("user", f"{number}").seq for number in range(3)] == [1, 2, 3]
        assert chat.verify().ok


@pytest.mark.parametrize(
    "options",
    [
        *({"lock_timeout": wrong} for wrong in (-1, "1", True)),
        *({"statement_timeout": wrong} for wrong in (-1, 0, float("nan"))),
        {"prepare": "yes"},
        *({"on_begin": wrong} for wrong in ("SELECT 1", [1], [("SELECT $1", "x")], [("a",)])),
    ],
    ids=str,
)
def test_wrong_options_are_refused(postgres_url, options):
    with pytest.raises(InvalidOption) as refused:
        Store.open(postgres_url, **options)
    assert refused.value.name in options


def test_options_of_servers_are_refused_on_sqlite():
    for option in ({"statement_timeout": 1}, {"prepare": False}, {"on_begin": ["SELECT 1"]}):
        with pytest.raises(InvalidOption, match="not of SQLite"):
            Store.open(":memory:", **option)


@pytest.mark.parametrize("option", ["nonsense=1", "prepare_threshold=0", "autocommit=false"])
def test_unknown_driver_option_in_the_url_is_refused(option):
    with pytest.raises(InvalidOption, match=option.partition("=")[0]):
        Store.open(f"postgresql://127.0.0.1:1/x?{option}")


@pytest.mark.parametrize("prepare", [None, True, False])
def test_prepare_option_decides_if_statements_are_prepared(postgres_url, prepare):
    with Store.open(postgres_url, prepare=prepare) as store:
        for _ in range(20):
            store.sessions()
        count = text("SELECT count(*) FROM pg_prepared_statements")
        ((prepared,),) = store._database.lookup(lambda tx: tx.rows(count))
    assert (prepared > 0) is (prepare is not False)


def test_pooler_is_left_without_prepared_statements_or_settings(postgres, admin, postgres_url):
    for bouncer in bouncers():
        with pooled(bouncer, postgres_url, connections=2) as url:
            _write_fully_and_lazily(url)
        written = sorted({row[0] for row in _seen(postgres, postgres_url)})
        assert written == ["off", "on"]


def _write_fully_and_lazily(url: str) -> None:
    over = threading.Event()
    with Store.open(url) as full, Store.open(url, durability="normal") as lazy:
        chat, hasty = full.create("s"), lazy.create("hasty")

        def hurry() -> None:
            while not over.is_set():
                hasty.append("user", "fast")
                hasty.view()

        thread = threading.Thread(target=hurry)
        thread.start()
        try:
            with Store.open(url, read_only=True) as reader:
                for number in range(60):
                    chat.append("user", f"{number}")
                    assert len(reader.session("s").view().messages) == number + 1
        finally:
            over.set()
            thread.join()
        asked, shown = text("SELECT count(*) FROM pg_prepared_statements"), text(SEEN)
        for _ in range(10):  # no connection to the server keeps what either store has set
            assert full._database.lookup(lambda tx: tx.rows(asked)) == [(0,)]
            assert full._database.lookup(lambda tx: tx.rows(shown)) == [("on", "0", "0", "")]
        assert chat.verify().ok
        assert hasty.verify().ok

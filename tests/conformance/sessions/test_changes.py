"""The change feed: every session that is written is reported, in order, whoever writes it."""

import asyncio
import sqlite3
import threading
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from roocontext import AsyncStore, Plan, Store
from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.engine.postgres import LONGEST_S
from roocontext.store.sessions.changes import Feed, _Row
from support.steps import steps_of

pytestmark = pytest.mark.every_leg

APPEND = Path(__file__).parents[3] / "migrations/versions/0001_append_postgresql.sql"
WAIT_S = 30
"""Long enough for a busy machine; nothing waits that long if it works."""


@pytest.fixture
def lab(lab):
    """A store of the test's own whose feeds are in a hurry."""
    hurry(lab.database)
    return lab


def hurry(database):
    """Look for changes twenty times a second, and not once."""
    database.polling = database.polling._replace(every_s=0.05)


def plain(url):
    """A connection of the plain driver."""
    return psycopg.connect(str(url).replace("+psycopg", ""), autocommit=True)


def told(changes):
    return [(change.session_id, change.last_seq) for change in changes]


def until(feed, wanted):
    """Read until these are the newest of what was reported, or for long enough."""
    newest, end = {}, time.monotonic() + WAIT_S
    while newest != wanted and time.monotonic() < end:
        newest |= dict(told(feed.read(timeout=1)))
    return newest


def test_feed_begins_with_every_session(lab):
    for name in "ab":
        lab.store.create(name).append("user", "hello")
    lab.store.create("c")
    with lab.store.changes() as feed:
        assert sorted(told(feed.read())) == [("a", 1), ("b", 1), ("c", 0)]
        assert feed.read(timeout=0) == []


def test_read_returns_first_what_an_iteration_has_left(lab):
    for name in "abc":
        lab.store.create(name)
    with lab.store.changes() as feed:
        first = next(iter(feed))
        lab.store.session(first.session_id).append("user", "hello")
        rest = feed.read(timeout=WAIT_S)
        assert sorted(told([first, *rest])) == [("a", 0), ("b", 0), ("c", 0)]
        assert told(feed.read(timeout=WAIT_S)) == [(first.session_id, 1)]


def test_every_kind_of_write_is_reported_once(lab):
    chat = lab.store.create("s", title="t")
    with lab.store.changes() as feed:
        assert told(feed.read()) == [("s", 1)]
        for number in range(3):
            chat.append("user", f"{number}")
        assert until(feed, {"s": 4}) == {"s": 4}
        for write in (
            lambda: chat.append_many([{"role": "user", "content": "x"}] * 2),
            lambda: chat.set_title("other"),
            lambda: chat.pin(2),
            lambda: chat.commit(Plan.truncate(chat.view(), [3, 4], "M")),
            lambda: chat.rewind(to=6),
            lambda: chat.redact(3),
        ):
            write()
            seq = chat.info().last_seq
            assert until(feed, {"s": seq}) == {"s": seq}
        fork = chat.fork(session_id="fork")
        assert until(feed, {"fork": fork.info().last_seq})
        assert feed.read(timeout=0.2) == []


def test_purge_is_reported(lab):
    lab.store.create("s").append("user", "hello")
    with lab.store.changes() as feed:
        assert [change.purged for change in feed.read()] == [False]
        lab.store.purge("s")
        (change,) = feed.read(timeout=WAIT_S)
        assert (change.session_id, change.purged) == ("s", True)


def test_cursor_continues_where_it_was(lab):
    chat = lab.store.create("old")
    with lab.store.changes() as feed:
        (change,) = feed.read()
    chat.append("user", "hello")
    lab.store.create("new")
    with lab.store.changes(change.cursor) as feed:
        assert set(told(feed.read())) == {("old", 1), ("new", 0)}


def test_cursor_of_now_leaves_out_what_is_long_past(lab):
    lab.store.create("old")
    lab.sql("UPDATE sessions SET changed_minute = changed_minute - 10")
    cursor = lab.store.change_cursor()
    with lab.store.changes(cursor) as feed:
        assert feed.read(timeout=0) == []
        lab.store.create("new")
        assert until(feed, {"new": 0}) == {"new": 0}


def test_feed_of_one_session_is_about_that_one(lab):
    chat, other = lab.store.create("s"), lab.store.create("other")
    with lab.store.changes(session="s") as feed, lab.store.changes() as all_of_them:
        assert told(feed.read()) == [("s", 0)]
        assert len(all_of_them.read()) == 2
        other.append("user", "hello")
        assert until(all_of_them, {"other": 1}) == {"other": 1}
        assert feed.read(timeout=0) == []
        chat.append("user", "hello")
        assert until(feed, {"s": 1}) == {"s": 1}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("cursor", ["", "x", "eyJ", 5, "WyJvdGhlciIsMV0"])
def test_what_is_no_cursor_is_refused(lab, cursor):
    with pytest.raises(InvalidOption):
        lab.store.changes(cursor)


def test_clock_that_is_set_back_hides_nothing(lab):
    """Minutes that were given before it was set back are later than those that come."""
    lab.store.create("before").append("user", "hello")
    lab.sql("UPDATE sessions SET changed_minute = changed_minute + 60")
    with lab.store.changes() as feed:
        (change,) = feed.read()
    lab.store.create("after")
    with lab.store.changes(change.cursor) as feed, lab.store.changes(change.cursor) as second:
        assert "after" in until(feed, {"after": 0, "before": 1})
        assert "after" in until(second, {"after": 0, "before": 1})
        lab.store.session("before").append("user", "again")
        lab.store.session("after").append("user", "again")
        assert until(feed, {"after": 1, "before": 2}) == {"after": 1, "before": 2}


def test_iteration_ends_when_the_feed_is_closed(shared):
    if shared.interface == "async":  # which has a test of its own below
        return
    feed = shared.store.changes(shared.store.change_cursor())
    ends = threading.Timer(0.3, feed.close)
    ends.start()
    assert [change for change in feed if change is None] == []
    assert feed.closed
    assert feed.read() == []


def test_store_that_is_closed_ends_its_feeds(tmp_path):
    store = Store.open(tmp_path / "s.db")
    feed = store.changes()
    assert feed.read(timeout=0) == []
    reader = threading.Thread(target=lambda: [*feed])
    reader.start()
    store.close()
    reader.join(WAIT_S)
    assert not reader.is_alive()
    assert feed.read() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.db"]


def test_one_thread_feeds_all(tmp_path):
    with Store.open(tmp_path / "s.db") as store:
        chat = store.create("s")
        feeds = [store.changes() for _ in range(50)]
        assert [told(feed.read()) for feed in feeds] == [[("s", 0)]] * 50
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("roocontext-changes") == 1
        chat.append("user", "hello")
        assert [until(feed, {"s": 1}) for feed in feeds] == [{"s": 1}] * 50
        for feed in feeds:
            feed.close()


def test_feed_of_one_session_costs_the_same_however_many_others_change():
    def steps(feeds, changed):
        with Store.open(":memory:") as store:
            following = [Feed(store._poller, None, "s") for _ in range(feeds)]
            store._poller._feeds.update(following)
            rows = [_Row(str(number), 1, 1, is_purged=False) for number in range(changed)]
            return steps_of(lambda: store._poller._report(1, rows))

    assert steps(20, 500) - steps(1, 500) == steps(20, 10) - steps(1, 10)


def test_error_is_raised_once_and_the_feed_continues(postgres_url):
    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        hurry(store._database)
        chat = other.create("s")
        with store.changes() as feed:
            assert told(feed.read()) == [("s", 0)]
            with plain(postgres_url) as admin:
                admin.execute("ALTER TABLE sessions RENAME COLUMN changed_minute TO elsewhere")
                with pytest.raises(StoreUnavailable):
                    feed.read(timeout=WAIT_S)
                admin.execute("ALTER TABLE sessions RENAME COLUMN elsewhere TO changed_minute")
            chat.append("user", "hello")
            while True:
                try:
                    assert until(feed, {"s": 1}) == {"s": 1}
                    break
                except StoreUnavailable:
                    continue


def test_cancelled_wait_ends_at_once_and_loses_nothing(lab):
    if lab.engine == "memory":  # another store writes
        return

    async def go():
        async with await AsyncStore.open(lab.url) as store:
            await store.create("s")
            async with store.changes() as feed:
                assert told(await feed.read()) == [("s", 0)]
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(feed.read(), 0.01)
                await (await store.session("s")).append("user", "hello")
                assert told([await anext(feed)]) == [("s", 1)]
                asyncio.get_running_loop().call_later(
                    0.3, lambda: asyncio.ensure_future(feed.close())
                )
                assert [change async for change in feed] == []

    asyncio.run(go())


def test_store_that_is_closed_ends_the_feeds_of_tasks(tmp_path):
    async def go():
        opened = await AsyncStore.open(tmp_path / "s.db")
        async with opened as store, store.changes() as feed:
            asyncio.get_running_loop().call_later(0.3, lambda: asyncio.ensure_future(store.close()))
            assert [change async for change in feed] == []
            assert await feed.read() == []

    asyncio.run(go())


WRITER = """
import sys
from roocontext import Store
url, name = sys.argv[1:]
with Store.open(url, durability="normal") as store:
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        chat = store.open_session(f"{name}-{number % 7}")
        if number % 5:
            receipt = chat.append("user", "hello")
        else:
            receipt = chat.append_many([{"role": "user", "content": "x"}] * 3)[-1]
        print(chat.id, receipt.seq, flush=True)
"""


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_no_session_is_missed_while_writers_are_killed(engine, opened, python):
    """Eight processes write, and die in the middle of it; two feeds read, one from cursors.

    Some of the sessions were begun before the clock was set back by an hour.
    """
    with opened(engine, "sync") as lab:
        for number in range(8):
            lab.store.create(f"w{number}-1").append("user", "before")
        lab.sql("UPDATE sessions SET changed_minute = changed_minute + 60")
        writers = [python.start(WRITER, str(lab.url), f"w{number}") for number in range(8)]
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        seen, resumed, cursor = defaultdict(list), {}, None
        with lab.store.changes() as feed:
            for turn in range(8):
                for change in feed.read(timeout=WAIT_S):
                    seen[change.session_id].append(change.last_seq)
                with lab.store.changes(cursor) as again:
                    for change in again.read(timeout=WAIT_S):
                        resumed[change.session_id] = change.last_seq
                        cursor = change.cursor
                writers[turn].kill()
            acknowledged = {}
            for writer in writers:
                lines = writer.communicate()[0].splitlines()
                acknowledged |= {
                    name: int(seq) for name, seq in (line.split() for line in lines if " " in line)
                }
            stored = {info.session_id: info.last_seq for info in lab.store.sessions(limit=1000)}
            assert acknowledged.keys() <= stored.keys()
            last = {name: seqs[-1] for name, seqs in seen.items()}
            end = time.monotonic() + WAIT_S
            while last != stored and time.monotonic() < end:
                for change in feed.read(timeout=1):
                    seen[change.session_id].append(change.last_seq)
                last = {name: seqs[-1] for name, seqs in seen.items()}
        assert last == stored
        assert all(seqs == sorted(set(seqs)) for seqs in seen.values())
        with lab.store.changes(cursor) as again:
            resumed |= dict(told(again.read(timeout=WAIT_S)))
        assert resumed == stored


def test_transaction_that_is_open_for_long_is_not_missed(postgres_url):
    """It is committed after others that were begun later were reported."""
    with Store.open(postgres_url) as store, store.changes() as feed:
        hurry(store._database)
        store.create("slow"), store.create("fast")
        assert until(feed, {"slow": 0, "fast": 0})
        with plain(postgres_url) as slow:
            with slow.transaction():
                slow.execute("SELECT * FROM sessions WHERE session_id = 'slow' FOR UPDATE")
                slow.execute(
                    "UPDATE sessions SET last_seq = 0, title = 't', changed_minute ="
                    " floor(extract(epoch FROM now()) / 60) - 2 WHERE session_id = 'slow'"
                )
                fast = store.session("fast")
                fast.append("user", "hello")
                assert until(feed, {"fast": 1}) == {"fast": 1}
            assert until(feed, {"slow": 0}) == {"slow": 0}


def test_write_that_ends_in_a_later_minute_is_not_missed(tmp_path):
    """On SQLite, where a reader begins in between."""
    path = tmp_path / "store.db"
    with Store.open(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as slow:
        store.create("s")
        slow.execute("UPDATE sessions SET changed_minute = changed_minute - 60")
        slow.execute("BEGIN IMMEDIATE")
        slow.execute("UPDATE sessions SET changed_minute = strftime('%s', 'now') / 60 - 1")
        with store.changes(session="s") as feed, store.changes(store.change_cursor()) as new:
            assert told(feed.read()) == [("s", 0)]
            assert new.read(timeout=0) == []
            slow.execute("COMMIT")
            assert told(feed.read(timeout=WAIT_S)) == [("s", 0)]
            assert told(new.read(timeout=WAIT_S)) == [("s", 0)]


def test_transaction_that_took_too_long_is_not_committed(postgres_url, monkeypatch):
    with Store.open(postgres_url) as store:
        chat = store.create("s")
        engine = chat._database._engine
        ((text, values),) = engine.end_write
        impatient = text.replace(f"'{LONGEST_S} s'", "'-1 s'")
        with monkeypatch.context() as patch:
            patch.setattr(
                chat._database, "_engine", replace(engine, end_write=((impatient, values),))
            )
            with pytest.raises(StoreUnavailable, match="longer than the 120 seconds"):
                chat.set_title("late")
        assert chat.info().title is None
        chat.set_title("in time")
        assert chat.info().title == "in time"


def test_function_of_an_append_has_the_same_bound():
    assert f"interval '{LONGEST_S} s'" in APPEND.read_text()

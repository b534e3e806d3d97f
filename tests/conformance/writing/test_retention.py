"""Purging by rule: by age and metadata, whole families, with receipts, and nothing on hold."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event

import psycopg
import pytest

from roocontext import ArchiveFolder, InvalidOption, SessionNotFound, Store
from roocontext.errors import SessionPurged
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.writing.new_session import create_session
from support.dialogue import at
from support.postgres_server import lock_waits

DAY = 86_400_000


def _ids(receipts):
    return sorted(receipt.session_id for receipt in receipts)


def _left(store):
    return sorted(info.session_id for info in store.sessions())


def _session(lab, name, **options):
    """A session with a message, one day after the one before."""
    lab.clock.now += DAY
    chat = lab.store.create(name, **options)
    chat.append("user", f"the content of {name}")
    return chat


def test_sessions_older_than_a_time_are_purged_with_receipts(lab):
    for name in ("a", "b", "c", "d"):
        _session(lab, name)
    cutoff = at(lab.clock.now - DAY - DAY // 2)  # between b and c
    planned = lab.store.purge(older_than=cutoff, dry_run=True)
    assert _ids(planned) == ["a", "b"]
    assert all(receipt.dry_run for receipt in planned)
    assert _left(lab.store) == ["a", "b", "c", "d"]
    done = lab.store.purge(older_than=cutoff)
    assert _ids(done) == ["a", "b"]
    assert [(one.entries, one.messages, one.dry_run) for one in done] == [(1, 1, False)] * 2
    assert _left(lab.store) == ["c", "d"]
    assert _ids(lab.store.purged()) == ["a", "b"]
    with pytest.raises(SessionPurged):
        lab.store.session("a")
    assert lab.store.purge(older_than=cutoff) == []


def test_age_is_a_duration_before_the_stores_clock(lab):
    for name in ("a", "b", "c"):
        _session(lab, name)
    assert _ids(lab.store.purge(older_than=timedelta(days=1, hours=12))) == ["a"]
    assert _ids(lab.store.purge(older_than=timedelta(0))) == ["b", "c"]


def test_later_of_both_clocks_decides_unless_asked_otherwise(lab):
    lab.clock.now += 400 * DAY
    imported = lab.store.create("imported")
    imported.append("user", "hello", ts=1)
    future = lab.store.create("future")
    future.append("user", "hello", ts=lab.clock.now + 400 * DAY)
    lab.clock.now += 10 * DAY
    recent, old = timedelta(days=100), timedelta(days=5)
    purge = lab.store.purge
    assert _ids(purge(older_than=recent, dry_run=True)) == []
    assert _ids(purge(older_than=recent, clock="happened", dry_run=True)) == ["imported"]
    assert _ids(purge(older_than=recent, clock="recorded", dry_run=True)) == []
    assert _ids(purge(older_than=old, dry_run=True)) == ["imported"]
    assert _ids(purge(older_than=old, clock="recorded", dry_run=True)) == ["future", "imported"]


def test_only_sessions_with_the_metadata_are_purged(lab):
    _session(lab, "a", metadata={"tenant": "acme", "retention": "short"})
    _session(lab, "b", metadata={"tenant": "acme", "retention": "hold"})
    _session(lab, "c", metadata={"tenant": "other", "retention": "short"})
    _session(lab, "d")
    where = {"tenant": "acme", "retention": "short"}
    assert _ids(lab.store.purge(where=where, older_than=timedelta(days=1))) == ["a"]
    assert _ids(lab.store.purge(where={"tenant": "other"}, dry_run=True)) == ["c"]
    assert _left(lab.store) == ["b", "c", "d"]


def test_family_is_purged_whole_once_all_of_it_is_old(lab):
    _session(lab, "root", metadata={"user": "ann"})
    _session(lab, "child", parent="root")
    _session(lab, "grandchild", parent="child")
    _session(lab, "other")
    old_root = timedelta(days=2, hours=12)  # root and child are older, the grandchild is not
    assert _ids(lab.store.purge(older_than=old_root)) == []
    assert _left(lab.store) == ["child", "grandchild", "other", "root"]
    done = lab.store.purge(where={"user": "ann"}, older_than=timedelta(hours=12))
    assert _ids(done) == ["child", "grandchild", "root"]
    assert _left(lab.store) == ["other"]


def test_family_can_be_left(lab):
    _session(lab, "root", metadata={"user": "ann"})
    _session(lab, "child", parent="root")
    assert _ids(lab.store.purge(where={"user": "ann"}, family=False)) == ["root"]
    assert _left(lab.store) == ["child"]
    assert lab.store.session("child").parent == "root"


def test_more_sessions_than_a_page_are_purged(lab, monkeypatch):
    monkeypatch.setattr("roocontext.store.store._AT_ONCE", 10)
    with_many = 33
    for number in range(with_many):
        lab.store.create(
            f"session {number:03}", parent=f"session {number - 1:03}" if number % 7 else None
        )
    lab.clock.now += DAY
    kept = lab.store.create("kept")
    done = lab.store.purge(older_than=timedelta(hours=1))
    assert len(done) == len({one.session_id for one in done}) == with_many
    assert _left(lab.store) == [kept.id]


def _put_on_hold(tx):
    tx.command("UPDATE facts SET value = 'hold' WHERE session_id = 'a'")


def _create_child(tx):
    create_session(SessionLog(tx, "a-child"), [], 0, parent="a")


@pytest.mark.parametrize(
    ("change", "purged", "left"),
    [(_put_on_hold, [], ["a"]), (_create_child, ["a", "a-child"], [])],
)
def test_hold_or_child_that_arrives_meanwhile_counts(postgres_url, change, purged, left):
    """Both conditions and the family are read again once the session is locked."""
    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        store.create("a", metadata={"retention": "short"}).append("user", "hello")
        is_locked, may_end = Event(), Event()

        def hold_and_change(tx):
            tx.command("SELECT 1 FROM sessions WHERE session_id = 'a' FOR UPDATE")
            is_locked.set()
            may_end.wait(60)
            change(tx)

        with ThreadPoolExecutor(2) as threads:
            holding = threads.submit(other._database.write, hold_and_change)
            assert is_locked.wait(60)
            purging = threads.submit(store.purge, where={"retention": "short"})
            with psycopg.connect(postgres_url, autocommit=True) as looking:
                while not lock_waits(looking):
                    Event().wait(0.01)
            may_end.set()
            holding.result()
            assert _ids(purging.result()) == purged
        assert _left(other) == left


@pytest.mark.one_leg
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"where": {}},
        {"dry_run": True},
        {"older_than": "90d"},
        {"older_than": 90},
        {"older_than": datetime(2026, 1, 1)},  # noqa: DTZ001 - without a zone
        {"older_than": timedelta.max},
        {"older_than": timedelta(days=-1)},
        {"older_than": timedelta(days=1), "clock": "any"},
        {"where": {"user": 1}},
        {"session_id": "a", "older_than": timedelta(days=1)},
        {"session_id": "a", "where": {"user": "ann"}},
    ],
    ids=str,
)
def test_rule_that_says_nothing_or_too_much_is_refused(lab, options):
    lab.store.create("a")
    with pytest.raises(InvalidOption):
        lab.store.purge(**options)
    assert _left(lab.store) == ["a"]


@pytest.mark.one_leg
def test_purge_of_one_session_leaves_its_family(lab):
    lab.store.create("root")
    lab.store.create("child", parent="root")
    assert lab.store.purge("root").session_id == "root"
    assert _left(lab.store) == ["child"]
    with pytest.raises(SessionNotFound):
        lab.store.purge("none")


@pytest.mark.every_leg
def test_archived_sessions_are_purged_by_the_same_rule(lab, tmp_path):
    for name, keep in (("a", "90d"), ("b", "hold"), ("c", "90d")):
        _session(lab, name, metadata={"retention": keep})
    _session(lab, "a-child", parent="a")
    put = ArchiveFolder(tmp_path)
    files = {name: lab.store.archive(session=name, put=put).archived[0] for name in ("a", "b", "c")}
    cutoff = at(lab.clock.now - DAY - DAY // 2)
    rule = {"older_than": cutoff, "where": {"retention": "90d"}}
    assert _ids(lab.store.purge(**rule, dry_run=True)) == _ids(lab.store.purge(**rule)) == []
    rule["older_than"] = at(lab.clock.now + DAY)
    planned = lab.store.purge(**rule, dry_run=True)
    done = lab.store.purge(**rule)
    assert _ids(planned) == _ids(done) == ["a", "a-child", "c"]
    digests = {one.session_id: (one.file, one.digest) for one in done}
    kept = {name: (files[name].file, files[name].digest) for name in ("a", "c")}
    assert digests == {**kept, "a-child": (None, None)}
    assert _left(lab.store) == ["b"]
    assert lab.store.usage() == []

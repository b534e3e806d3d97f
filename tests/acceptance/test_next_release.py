"""Two releases on one store: today's code works with what the next release has added to it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import psycopg
import pytest

from migration.conftest import Raw, raw_database
from roocontext import NewMessage, Plan, Session, Store
from roocontext.log.counting import BYTES
from roocontext.reports import health
from roocontext.store.engine.schema import REVISION
from roocontext.testing import CHECKS, Verdict, examine
from support import next_release
from support.examples import everyday
from support.next_release import NextRelease


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NextRelease]:
    with next_release.next_release(tmp_path_factory.mktemp("next")) as running:
        yield running


@pytest.fixture(params=["file", "postgres"])
def raw(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Raw]:
    with raw_database(request, tmp_path) as made:
        yield made


@pytest.fixture
def upgraded(raw: Raw, release: NextRelease) -> Raw:
    """A store that the next release has upgraded."""
    Store.open(raw.url).close()
    release.upgrade(raw.url)
    return raw


def test_newer_schema_is_used_by_an_older_release(upgraded):
    for upgrade in (True, False):
        with Store.open(upgraded.url, upgrade=upgrade) as store:
            _everything(store)
    assert _version(upgraded) == (next_release.REVISION, "0.1.0")
    with Store.open(upgraded.url, read_only=True) as store:
        assert store.sessions()


def test_open_store_works_on_after_the_next_release_has_upgraded_it(raw, release):
    with Store.open(raw.url) as store:
        _everything(store)  # with every statement prepared
        release.upgrade(raw.url)
        _everything(store)
        chat = store.open_session("shared")
        for number in range(8):
            chat.append("user", f"of this release: {number}")
        release.upgrade(raw.url, appends=5)
        chat.append("user", "the last")
        assert chat.verify().ok
        assert len(chat.view().messages) == 14
    if raw.engine == "postgres":
        assert raw.run("SELECT count(*) FROM stamps") == [(5,)]


def test_writers_and_readers_lose_nothing_while_another_process_upgrades(raw, release):
    ended = Event()
    with Store.open(raw.url) as store, ThreadPoolExecutor(6) as threads:
        chats = [store.create(f"chat {number}") for number in range(3)]
        writing = [threads.submit(_write_until, ended, chat) for chat in chats]
        reading = [threads.submit(_read_until, ended, store, chat) for chat in chats]
        try:
            upgrading = release.start(raw.url, appends=20)
            _, errors = upgrading.communicate()
        finally:
            ended.set()
        assert upgrading.returncode == 0, errors
        written = [future.result() for future in writing]
        assert all(future.result() for future in reading)
        assert all(count > 0 for count in written)
        for chat, count in zip(chats, written, strict=True):
            assert [message.content for message in chat.view().messages] == [
                f"message {number}" for number in range(count)
            ]
            assert chat.verify().ok
        assert len(store.session("shared").view().messages) == 20
    assert _version(raw)[0] == next_release.REVISION


@pytest.mark.parametrize("raw", everyday(["postgres"], ["file", "postgres"]), indirect=True)
@pytest.mark.usefixtures("forked_writers")
def test_every_promise_is_kept_while_another_process_upgrades(raw, release):
    Store.open(raw.url).close()
    upgrading = release.start(raw.url, appends=1)
    report = examine("support.reference_store:Reference", raw.url)
    _, errors = upgrading.communicate()
    assert upgrading.returncode == 0, errors
    assert _version(raw)[0] == next_release.REVISION
    refused = [str(it) for it in report.results if it.verdict is not Verdict.KEPT]
    assert refused == ["condensing splits no pair: refused (InvalidPlan)"]
    assert len(report.results) == len(CHECKS)


@pytest.mark.parametrize("raw", ["postgres"], indirect=True)
def test_upgrade_gives_up_rather_than_let_writers_wait_for_a_long_reader(raw, release):
    """A dump reads every table in one transaction: who wants to alter one waits for its end."""
    with Store.open(raw.url, lock_timeout=5) as store:
        chat = store.create("chat")
        with psycopg.connect(raw.url) as dump:
            dump.execute("SELECT count(*) FROM entries")
            upgrading = release.start(raw.url)
            count = 0
            while upgrading.poll() is None:
                count += chat.append("user", "hello").new
                sleep(0.01)
            assert count > 0
            _, errors = upgrading.communicate()
            assert "StoreUnavailable" in errors
            assert "55P03" in errors
        assert _version(raw)[0] == REVISION
        release.upgrade(raw.url)
        assert chat.append("user", "hello").seq == count + 1


# What shows it


@pytest.mark.parametrize("raw", ["file"], indirect=True)
def test_check_for_an_upgrade_is_answered_by_the_exit_code(raw, release):
    check = ("db", "upgrade", "--check", "--db", raw.url)
    assert release.command(*check) == (1, "The schema has to be created, to version 0002.\n")
    assert raw.run("SELECT name FROM sqlite_master") == []
    Store.open(raw.url).close()
    code, printed = release.command(*check)
    assert (code, printed) == (
        1,
        "The schema has to be upgraded from version 0001, to version 0002.\n",
    )
    assert _version(raw)[0] == REVISION
    assert release.command("db", "upgrade", "--db", raw.url)[0] == 0
    code, printed = release.command(*check)
    assert (code, printed) == (0, "The schema is version 0002, with which this release works.\n")


def test_doctor_notes_a_newer_schema_and_refuses_one_that_is_too_new(upgraded):
    with Store.open(upgraded.url) as store:
        store.create("one").append("user", "hello")
    findings = {it.check: it for it in health.examined(upgraded.url)}
    assert findings["schema"].status == "note"
    assert "0002" in findings["schema"].says
    assert "2 sessions" in findings["schema"].says
    assert findings["entries"].status == findings["triggers"].status == "ok"
    upgraded.run("UPDATE roocontext_version SET version_num = '0002', oldest_release = '0.3.0'")
    (finding,) = [it for it in health.examined(upgraded.url) if it.check == "schema"]
    assert (finding.status, "0.3.0 or newer" in finding.says) == ("bad", True)


def _everything(store: Store) -> None:
    """Use every table, and read it again; more often than a driver waits to prepare."""
    chat = store.create(metadata={"user": "ann"})
    for number in range(8):
        chat.append("user", f"hello {number}", client_id=f"{number}")
        assert len(chat.view().messages) == number + 1
    chat.append_many([NewMessage("user", "a"), NewMessage("assistant", "b")])
    chat.commit(Plan.condense(chat.view(), [2, 3], "short"))
    assert chat.tokens(BYTES) > 0
    chat.pin(5)
    chat.rewind(to=9)
    chat.undo()
    fork = chat.fork()
    fork.redact(3)
    store.index()
    assert store.search("hello", session=fork.id)
    assert {info.session_id for info in store.sessions()} >= {chat.id, fork.id}
    with chat.turn(lease=60):
        chat.set_title("renamed")
    assert chat.verify().ok
    assert fork.verify().ok
    assert chat.rebuild() == 0
    assert store.purge(fork.id).entries > 0


def _write_until(ended: Event, chat: Session) -> int:
    count = 0
    while not ended.is_set():
        chat.append("user", f"message {count}")
        count += 1
    return count


def _read_until(ended: Event, store: Store, chat: Session) -> bool:
    seen = 0
    while not ended.is_set():
        messages = chat.view().messages
        assert len(messages) >= seen
        seen = len(messages)
        assert len(list(chat.audit())) >= seen
        assert len(store.sessions()) >= 3
    return True


def _version(raw: Raw) -> tuple[Any, ...]:
    (row,) = raw.run("SELECT version_num, oldest_release FROM roocontext_version")
    return row

"""Operations during another one, or after one that failed half-way."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.errors import (
    SessionNotFound,
    SessionPurged,
    StoreUnavailable,
    TurnTaken,
)
from roocontext.store.proof.verify import PAGE
from support.postgres_server import lock_waits

pytestmark = pytest.mark.every_leg

WAIT_S = 30


@pytest.fixture
def room(engine: str, opened: Callable[..., Any]) -> Iterator[Any]:
    """A store that may be used during one of its own calls."""
    with opened(engine, "sync") as lab:
        yield lab


def test_redaction_during_verify_is_no_forgery(room):
    chat = room.store.create()
    chat.append_many([NewMessage("user", f"word {number}") for number in range(PAGE + 200)])
    last = PAGE + 100

    def redact(done: int, _total: int) -> None:
        if done == PAGE:
            chat.redact(last)

    assert chat.verify(progress=redact).ok


class Redacting:
    """A counter during whose work a message is redacted."""

    name = "redacting"
    exact = True

    def __init__(self, chat: Any, seq: int) -> None:
        self._chat, self._seq = chat, seq

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002
        """The letters of a text."""
        self._chat.redact(self._seq)
        return len(str(content))


def test_count_of_a_message_redacted_meanwhile_is_not_stored(room):
    chat = room.store.create()
    secret = chat.append("user", "a long secret").seq
    counter = Redacting(chat, secret)
    assert chat.tokens(counter) == len("a long secret")
    assert chat.tokens(counter) == len(str(chat.view().messages[0].content))


def test_purge_during_verify_and_audit_is_a_typed_error(room):
    chat = room.store.create()
    chat.append_many([NewMessage("user", f"word {number}") for number in range(PAGE + 200)])
    entries = chat.audit()
    next(iter(entries))
    with pytest.raises(SessionPurged):
        chat.verify(progress=lambda *_: room.store.purge(chat.id))
    with pytest.raises(SessionPurged):
        list(entries)


def test_damaged_spans_are_found_in_a_busy_session(room):
    chat = room.store.create("s")
    chat.append_many([NewMessage("user", f"word {number}") for number in range(PAGE + 200)])
    room.sql("UPDATE spans SET rewound_by = 1 WHERE session_id = 's'")
    found = chat.verify(progress=lambda *_: chat.append("user", "meanwhile"))
    assert not found.ok
    assert "spans" in found.problem


def test_erasure_that_was_held_up_can_be_finished(opened):
    with opened("file", "sync") as lab:
        chat = lab.store.create()
        chat.append("user", "TOPSECRET " * 50)
        with lab.store._database.read() as reader:
            reader.command("SELECT count(*) FROM entries")
            assert not chat.redact(1).erased
        again = chat.redact(1)
        assert (again.changed, again.erased) == (False, True)
        for suffix in ("", "-wal"):
            with open(lab.url + suffix, "rb") as file:  # noqa: PTH123 - bytes of two siblings
                assert b"TOPSECRET" not in file.read()


def test_pipeline_that_failed_leaves_no_broken_connection(postgres_url):
    with Store.open(postgres_url, lock_timeout=0.04) as store:
        store.sessions()
        chat = store.create()
        chat.append_many([NewMessage("user", "word " * 30) for _ in range(6)])
        plan = Plan.condense(chat.view(), [1, 2, 3, 4], "S")
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE spans IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable):
                chat.commit(plan)
        chat.commit(plan)
        assert store.create().verify().ok
        assert chat.verify().ok


def test_turn_that_is_renewed_while_another_runner_takes_it_is_kept(postgres_url):
    with Store.open(postgres_url) as store, ExitStack() as stack:
        chat = store.create("s")
        stack.enter_context(chat.turn(holder="first"))
        threads = stack.enter_context(ThreadPoolExecutor(1))
        with psycopg.connect(postgres_url) as renewing, psycopg.connect(postgres_url) as looking:
            looking.autocommit = True
            looking.execute("UPDATE turns SET expires_at = 0")
            renewing.execute("UPDATE turns SET expires_at = 9000000000000")
            taken = threads.submit(chat.turn(holder="second").__enter__)
            while not lock_waits(looking):
                assert not taken.done()
        with pytest.raises(TurnTaken) as refused:
            taken.result(WAIT_S)
        assert refused.value.holder == "first"


def test_renewal_of_a_turn_waits_for_no_other_change_of_it(postgres_url: str) -> None:
    """One thread renews all turns of a process, and would be late for the others."""
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(postgres_url, lock_timeout=60))
        turn = stack.enter_context(store.create("s").turn(lease=60))
        threads = stack.enter_context(ThreadPoolExecutor(1))
        with psycopg.connect(postgres_url) as changing:
            changing.execute("SELECT 1 FROM turns WHERE session_id = 's' FOR UPDATE")
            assert threads.submit(turn.renew).result(WAIT_S) == 1
        assert turn.renew() == 20


@pytest.mark.parametrize(
    "write",
    [
        lambda chat: chat.append("user", "late"),
        lambda chat: chat.set_metadata({"team": "a", "late": "yes"}),
        lambda chat: chat.rewind(1),
    ],
    ids=["append", "metadata", "rewind"],
)
def test_session_that_leaves_a_store_while_it_is_waited_for_is_not_written(postgres_url, write):
    with Store.open(postgres_url) as everyone, ThreadPoolExecutor(1) as threads:
        chat = everyone.create("s", metadata={"team": "a"})
        last = chat.append("user", "early").seq
        with Store.open(postgres_url, where={"team": "a"}) as part:
            with psycopg.connect(postgres_url) as moving, psycopg.connect(postgres_url) as looking:
                looking.autocommit = True
                moving.execute("UPDATE facts SET value = '\"b\"'")
                moving.execute("UPDATE sessions SET title = 'moved'")
                late = threads.submit(write, part.session("s"))
                while not lock_waits(looking):
                    assert not late.done()
            with pytest.raises(SessionNotFound):
                late.result(WAIT_S)
        assert chat.head().seq == last

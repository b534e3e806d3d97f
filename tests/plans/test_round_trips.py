"""The number of times that an operation waits for the PostgreSQL server, which may be far away."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.pq import PipelineStatus

from roocontext import ContextManager, Plan, Session, Store
from support.steady_sources import SetClock

ROWS = 40
MODEL = "claude-sonnet-4-5"


class Waits:
    """Counts the statements that are answered one by one, and the requests of several."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.sent: list[str] = []
        cursor = psycopg.Cursor
        apart = ((psycopg.Connection, "pipeline"), (cursor, "execute"), (cursor, "executemany"))
        together = ((cursor, "fetchone"), (cursor, "fetchall"))
        for kind, name in (*apart, *together):
            method = self._counted(getattr(kind, name), inside=(kind, name) in together)
            patch.setattr(kind, name, method)

    def of(self, operation: Callable[[], object]) -> int:
        """The number of waits of an operation."""
        self.count = 0
        operation()
        return self.count

    def _counted(self, method: Callable[..., Any], *, inside: bool) -> Callable[..., Any]:
        def counting(one: Any, *args: Any, **options: Any) -> Any:
            connection = getattr(one, "connection", one)
            is_together = connection.pgconn.pipeline_status != PipelineStatus.OFF
            self.count += is_together == inside
            self.sent += args[:1] if method.__name__ == "execute" else ()
            return method(one, *args, **options)

        return counting


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """The waits counted from here on."""
    return Waits(monkeypatch)


@pytest.fixture
def clock() -> SetClock:
    """A clock that does not go on by itself."""
    return SetClock()


@pytest.fixture
def store(postgres: Any, waits: Waits, clock: SetClock) -> Iterator[Store]:
    """A store on connections whose waits are counted, which holds the session `chat`."""
    assert not waits.count
    with Store.open(postgres.fresh(), clock=clock) as store:
        store.create("chat")
        yield store


@pytest.fixture
def chat(store: Store, clock: SetClock) -> Session:
    """That session, with a message each millisecond."""
    chat = store.session("chat")
    for number in range(ROWS):
        clock.now = number
        chat.append("user", "hello")
    return chat


def moment(milliseconds: int) -> datetime:
    """A time of the log."""
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def test_append_waits_once(chat, waits):
    assert waits.of(lambda: chat.append("user", "hello")) == 1
    # the lock, then all rows with the head and the commit
    many = [{"role": "user", "content": "hello"}] * 100
    assert waits.of(lambda: chat.append_many(many)) == 2


def test_view_waits_once(chat, waits):
    assert waits.of(chat.view) == 1
    chat.commit(Plan.truncate(chat.view(), range(10, ROWS - 10), "M"))
    assert waits.of(chat.view) == 1


def test_messages_wait_few_times(chat, waits):
    # the view, and the end of the snapshot
    assert (waits.of(chat.messages), waits.of(chat.repairs)) == (2, 2)
    # a model that binds its thinking: also the recorded frames with the redactions and the control
    # rows
    assert waits.of(lambda: chat.messages(model="claude-fable-5-1")) == 3


def test_part_of_a_view_waits_once(chat, waits):
    # the spans and what is cleared in them, then the rows, then the end of the snapshot
    assert waits.of(lambda: chat.view(after=ROWS - 10)) == 3
    # how many spans are needed shows only in their rows: the spans, the rows, what is cleared there
    assert waits.of(lambda: chat.view(limit=10)) == 4
    assert waits.of(lambda: chat.view(last=10)) == 4


def test_view_of_the_past_waits_few_times(chat, waits):
    # the end of the log, the head at that time, the control rows, the rows, and the end
    assert waits.of(lambda: chat.view(as_of=ROWS - 10)) == 5


def test_reads_of_one_statement_take_no_snapshot(chat, waits):
    for read in (Session.head_seq, Session.head, Session.info, Session.children):
        assert waits.of(partial(read, chat)) == 1
    assert waits.of(lambda: chat.internals.uncovered_since(1)) == 1


def test_list_of_sessions_waits_once(store, waits):
    for look in (Store.sessions, Store.overview, Store.purged):
        assert waits.of(partial(look, store)) == 1
    assert waits.of(lambda: store.find("a")) == 1
    assert waits.of(lambda: store.session("chat")) == 1


def test_rewind_and_undo_wait_few_times(chat, waits):
    # the lock with the end of the log, what changes with how much that is, the rows with the commit
    assert waits.of(lambda: chat.rewind(ROWS - 10)) == 3
    # the newest rewind with the lock, and then the end of the log
    assert waits.of(chat.undo) == 4
    # nothing changes: only the end of the transaction is left
    assert waits.of(lambda: chat.rewind(ROWS)) == 2


def test_rewind_to_a_time_waits_few_times(chat, waits):
    # the lock with the control rows, two rounds of the search, the first later entry, the message
    # before it; then the end of the log, how much changes, and the rows with the commit
    assert waits.of(lambda: chat.rewind(moment(ROWS - 10))) == 8
    chat.undo()


def test_condense_and_uncover_wait_few_times(chat, waits):
    plan = Plan.truncate(chat.view(), range(1, ROWS - 10), "M")
    # the lock with the end of the log, how much is hidden, the tools of the smaller side, the rows
    assert waits.of(lambda: chat.commit(plan)) == 4
    # the row with the lock, the end of the log, how much returns, the rows
    assert waits.of(lambda: chat.uncover(ROWS + 1)) == 4


def test_manage_with_nothing_to_do(chat, waits):
    frame: dict[str, Any] = {"system": "Be brief.", "tools": []}
    chat.append("assistant", "hi", usage={"input_tokens": 9, "output_tokens": 1}, model=MODEL)
    chat.append("user", "and then?")
    manager = ContextManager(model=MODEL)
    manager.manage(chat, **frame)  # it keeps the counts, the estimate of the call and the frame
    # the head with what is one row, the spans and the calls; the sums of the spans; the counts
    # after the last call; the end of the snapshot
    assert waits.of(lambda: manager.manage(chat, **frame)) == 4
    assert waits.of(lambda: manager.manage(chat)) == 4


def test_manage_reads_what_it_needs_in_six_statements(chat, waits):
    """Between the nodes of a cluster each takes a message there and back, sent together or not."""
    chat.append("assistant", "hi", usage={"input_tokens": 9, "output_tokens": 1}, model=MODEL)
    manager = ContextManager(model=MODEL)
    manager.manage(chat)
    waits.sent.clear()
    manager.manage(chat)
    assert sum(text.startswith("SELECT") for text in waits.sent) == 6
    assert sum(text.startswith("SELECT sessions.last_seq") for text in waits.sent) == 1

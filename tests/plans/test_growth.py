"""Frequent reads cost the same however much a store holds.

Nothing here is a time. SQLite counts the statements that it is given and the instructions of its
virtual machine that they take, which are the same on every machine.
"""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roocontext import ContextManager, NewMessage, Plan, Session, Store, View
from support.steady_sources import SetClock

STEP = 1
FEW, MANY = 4, 80
USED = {"input_tokens": 40, "output_tokens": 2}


class Work:
    """The statements that SQLite was asked to run."""

    def __init__(self) -> None:
        self.statements = self.instructions = 0
        self.texts: list[str] = []

    def watch(self, connection: sqlite3.Connection) -> None:
        """Count what a connection does."""
        connection.set_trace_callback(self._asked)
        connection.set_progress_handler(self._went_on, STEP)

    def of(self, call: Callable[[], Any]) -> tuple[int, int]:
        """The statements and the instructions of a call, once its caches are warm."""
        call()
        self.statements = self.instructions = 0
        call()
        return self.statements, self.instructions

    def _asked(self, text: str) -> None:
        self.statements += 1
        self.texts.append(text)

    def _went_on(self) -> int:
        self.instructions += STEP
        return 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Watches every connection that is made from here on."""
    work, connect = Work(), sqlite3.connect

    def watched(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        work.watch(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    return work


@pytest.fixture
def store(work: Work, tmp_path: Path) -> Iterator[Store]:
    """A store whose work is counted, and whose time advances by a minute a call."""
    with Store.open(
        tmp_path / "store.db", durability="normal", clock=SetClock(step=60_000)
    ) as store:
        yield store


def rewritten(chat: Session, times: int) -> Session:
    """A session that was condensed and rewound in turn, and then called a model."""
    for number in range(times):
        chat.append_many([NewMessage("user", f"message {number}.{n}") for n in range(6)])
        if number % 2:
            chat.rewind(to=chat.head_seq() - 2)
        else:
            view = chat.view()
            chat.commit(Plan.condense(view, [m.seq for m in view.messages[:-3]], "in short"))
    chat.append("assistant", "done", usage=USED)
    chat.append("user", "next")
    return chat


@pytest.fixture
def chats(store: Store) -> tuple[Session, Session]:
    """One with few control rows and one with many."""
    return rewritten(store.create("few"), FEW), rewritten(store.create("many"), MANY)


CONTEXT = ContextManager(limit=1_000_000, output=1_000, counter="opencode", drift_ratio=1e9)


def read_in_pages(chat: Session) -> list[View]:
    return list(chat.internals.pages(2))


@pytest.mark.parametrize("asked", [CONTEXT.manage, Session.stats, Session.info, read_in_pages])
def test_call_without_work_costs_the_same_after_a_long_past(work, chats, asked):
    few, many = (work.of(lambda chat=chat: asked(chat)) for chat in chats)
    assert many[0] == few[0]
    assert many[1] < 1.5 * few[1]


def kept_apart(chat: Session, times: int) -> None:
    """Let the view of a session have many spans, and a call of the model as its last message."""
    for number in range(times):
        _, *hidden = chat.append_many([NewMessage("user", f"{number}.{n}") for n in range(3)])
        hide = [receipt.seq for receipt in hidden]
        chat.commit(Plan.condense(chat.view(), hide, ".", counter=Letters()))
    chat.append("assistant", "done", model="claude-fable-5-1", usage=USED)


def test_list_of_sessions_costs_as_much_as_their_views_have_parts(work, store):
    costs = []
    for times in (20, 80):
        chat = store.create()
        kept_apart(chat, times)
        costs.append(work.of(lambda chat=chat: store.overview(ids=[chat.id]))[1])
    assert costs[1] < 5 * costs[0]


class Letters:
    """A counter that says whether it was asked."""

    name = "letters"
    exact = True
    asked = 0

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002
        """The letters of a text."""
        self.asked += 1
        return len(str(content))


@pytest.mark.parametrize("page", ["first", "next"])
def test_page_of_sessions_is_found_among_many_as_among_few(work, store, page):
    costs = []
    for count in (40, 400):
        for _ in range(count):
            store.create()
        last = store.sessions(limit=10).next if page == "next" else None
        costs.append(work.of(lambda last=last: store.sessions(limit=10, after=last))[1])
    assert costs[1] < 1.2 * costs[0]


def test_listed_minute_is_written_only_when_it_changes(work, tmp_path):
    """SQLite writes an index anew whenever a statement names its column, changed or not."""
    clock = SetClock(now=1_700_000_040_000, step=10_000)
    with Store.open(tmp_path / "slow.db", clock=clock) as slow:
        chat = slow.create()
        named = []
        for _ in range(12):
            work.texts.clear()
            chat.append("user", "hello")
            named.append(any("updated_minute=" in text for text in work.texts))
    assert named == [*[False] * 5, True, *[False] * 5, True]


def test_search_over_all_costs_the_same_among_many_sessions(work, store):
    chat = store.create()
    chat.append_many([NewMessage("user", f"message {number}") for number in range(40)])
    costs = []
    for count in (120, 800):
        for _ in range(count):
            store.create()
        store.index()
        chat.append("user", "a message that is not indexed")
        costs.append(work.of(lambda: store.search("39"))[1])
    assert costs[1] < 1.2 * costs[0]


def test_search_in_a_session_costs_the_same_in_a_long_one(work, store):
    for name, count in (("short", 40), ("long", 2_000)):
        store.create(name).append_many([NewMessage("user", "hello") for _ in range(count)])
        store.session(name).append("user", "needle")
    store.index()
    short, long = (
        work.of(lambda name=name: store.search("needle", session=name))
        for name in ("short", "long")
    )
    assert long[0] == short[0]
    assert long[1] < 1.2 * short[1]


def test_later_page_of_the_best_hits_costs_no_more(work, store):
    store.create().append_many([NewMessage("user", f"needle {number}") for number in range(400)])
    costs, after = [], None
    for _ in range(18):
        found = partial(store.search, "needle", after=after)
        costs.append(work.of(found)[1])
        after = found().next
    assert costs[17] < 1.5 * costs[3]


def test_output_finds_its_call_without_reading_what_is_before_it(work, store):
    costs = []
    for name, count in (("short", 50), ("long", 200)):
        chat = store.create(name)
        for number in range(count):
            asked = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}}
            said = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "needle"}
            chat.append("assistant", [asked])
            chat.append("user", [said])
        costs.append(work.of(partial(store.search, "needle", session=name, tool="read"))[1])
    assert costs[1] < 5 * costs[0]


def test_view_asks_for_no_compaction_that_is_hidden(work, store):
    costs = []
    for times in (FEW, MANY):
        chat = store.create()
        for number in range(times):
            chat.append("user", "hello")
            said = {"type": "compaction", "content": f"what was said until {number}"}
            reply = {"type": "message", "id": f"{number}", "content": [said]}
            chat.record({**reply, "stop_reason": "compaction"})
        assert [message.compacted is not None for message in chat.view().messages] == [True]
        assert sum(row.message.compacted is not None for row in chat.internals.live()) == 1
        costs.append(work.of(chat.view)[0])
    assert costs[1] == costs[0]


def test_restored_session_is_not_compared_with_all_above_it(work, store):
    with Store.open(":memory:") as source:
        log = list(source.create("s").internals.stored())
    above, costs = "s0", []
    for number in range(1, 60):
        work.statements = 0
        store.restore(f"s{number}", log, parent=above)
        costs.append(work.statements)
        above = f"s{number}"
    assert costs[58] == costs[1]


@pytest.mark.parametrize("few", [1, 100])
def test_unindexed_session_is_noted_once(work, tmp_path, monkeypatch, few):
    """And not at all while few sessions have anything that is not indexed."""
    monkeypatch.setattr("roocontext.store.search.index.FEW", few)
    clock = SetClock(now=1_700_000_040_000, step=1)
    with Store.open(tmp_path / "noted.db", clock=clock) as store:
        chat = store.create()
        named = []
        for number in range(6):
            if number % 3 == 1:
                store.index()
            work.texts.clear()
            chat.append("user", "hello")
            named.append(any("unindexed=" in text for text in work.texts))
    assert named == [False, few == 1, False, False, few == 1, False]


def test_only_new_messages_are_counted(work, store):
    """Earlier counts are summed, and their rows neither joined nor read."""
    counter = Letters()
    costs = []
    for name, count in (("short", 20), ("long", 400)):
        chat = store.create(name)
        chat.append_many([NewMessage("user", "hello") for _ in range(count)])
        chat.tokens(counter)
        chat.append("user", "new")
        work.instructions = counter.asked = 0
        chat.tokens(counter)
        assert counter.asked == 1
        costs.append(work.instructions)
    assert costs[1] - costs[0] < 10 * 380

"""How statements run on a cluster: those of one session on one shard, others on each shard once."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import ContextManager, NewMessage, Pin, Plan, Session, SetTitle, Store
from roocontext.log.counting import BYTES
from support.citus_server import SHARDS, Citus

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "citus.md"
MODEL = "claude-sonnet-4-5"
MANAGER = ContextManager(model=MODEL)
REPLY = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t", "name": "run", "input": {}}],
    "model": MODEL,
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def condense(chat: Session) -> int:
    view = chat.view()
    return chat.commit(Plan.condense(view, [row.seq for row in view.messages[1:4]], "short")).seq


def answer(chat: Session) -> None:
    (call,) = chat.pending()
    chat.begin(call)
    chat.answer(call, "done")


def batch(chat: Session) -> None:
    last = chat.info().last_seq
    chat.write_batch([NewMessage("user", "one"), SetTitle("title"), Pin(last + 1)])


ONE_SESSION: dict[str, Callable[[Session, Store], Any]] = {
    "create": lambda _, store: store.create(title="t", metadata={"user": "u"}),
    "append": lambda chat, _: chat.append("user", "hello", client_id="one"),
    "append again": lambda chat, _: chat.append("user", "hello", client_id="one"),
    "append_many": lambda chat, _: chat.append_many([NewMessage("user", "hello")] * 300),
    "write_batch": lambda chat, _: batch(chat),
    "request": lambda chat, _: chat.request("anthropic", model=MODEL, system="Be brief."),
    "record": lambda chat, _: chat.record(REPLY),
    "answer": lambda chat, _: answer(chat),
    "view": lambda chat, _: chat.view(),
    "view of a part": lambda chat, _: chat.view(last=5),
    "view of the past": lambda chat, _: chat.view(as_of=7),
    "view at a time": lambda chat, _: chat.view(as_of=datetime.now(UTC)),
    "messages": lambda chat, _: chat.messages(),
    "manage": lambda chat, _: MANAGER.manage(chat),
    "manage with nothing to do": lambda chat, _: MANAGER.manage(chat),
    "tokens": lambda chat, _: chat.tokens(BYTES),
    "condense": lambda chat, _: condense(chat),
    "rewind": lambda chat, _: chat.rewind(300),
    "undo": lambda chat, _: chat.undo(),
    "uncover": lambda chat, _: chat.uncover(condense(chat)),
    "pin": lambda chat, _: chat.pin(3),
    "set_metadata": lambda chat, _: chat.set_metadata({"user": "v"}),
    "note": lambda chat, _: [chat.note("remark", {"n": 1}), chat.newest_note("remark")],
    "search in a session": lambda chat, store: [
        store.search("hello", session=chat.id, limit=3),
        store.search("hello", session=chat.id, among="visible", order="oldest", limit=3),
    ],
    "audit": lambda chat, _: list(chat.audit()),
    "verify": lambda chat, _: chat.verify(),
    "rebuild": lambda chat, _: chat.rebuild(),
    "stats": lambda chat, _: [chat.info(), chat.stats(), chat.head()],
    "usage": lambda chat, _: [chat.usage(), chat.internals.calls()],
    "archive": lambda _, store: archive(store),
}


def archive(store: Store) -> None:
    chat = store.create(title="old")
    chat.append("user", "hello")
    store.archive(session=chat.id, put=lambda *_: None)


CROSSING: dict[str, Callable[[Session, Store], Any]] = {
    "`sessions()`": lambda _, store: store.sessions(limit=3, where={"user": "u"}),
    "`overview()`, and twice for each session that is listed": lambda _, store: store.overview(
        parent="chat"
    ),
    "`find()`": lambda _, store: store.find("c"),
    "`children()`": lambda chat, _: chat.children(),
    "`search()`, two of them again for each page of candidates": lambda _, store: store.search(
        "nothing"
    ),
    "`search(family=)`, and once for each level of the family": lambda chat, store: store.search(
        "nothing", family=chat.id
    ),
    "`index()`, two of them again for each batch": lambda _, store: store.index(),
    "`drop_index()`": lambda _, store: store.drop_index(),
    "`usage(family=True)`, once for each level": lambda chat, _: chat.usage(family=True),
    "`Store.usage()`": lambda _, store: store.usage(since=LONG_AGO),
    "`fork()`": lambda chat, _: chat.fork(5),
    "`redact()`": lambda chat, _: chat.redact(3),
    "`purge()`": lambda _, store: store.purge("helper"),
    "`archive(older_than=)`, once for each 1,000 sessions that are old": lambda _, store: (
        store.archive(older_than=LONG_AGO, put=lambda *_: None)
    ),
    "`purged()`": lambda _, store: store.purged(),
}


class Ran(NamedTuple):
    """What an operation sent to the coordinator, and the coordinator to its nodes."""

    statements: list[tuple[str, Any]]
    remote: list[str]
    nodes: set[str]

    def tasks(self, explained: Callable[[str, Any], int]) -> list[int]:
        """How many shards each statement asks."""
        return [explained(*statement) for statement in self.statements]

    def is_in_two_phases(self) -> bool:
        return any("PREPARE TRANSACTION" in command for command in self.remote)


class Listener:
    """Notes what is sent on the connections of a store."""

    def __init__(self) -> None:
        self.ran = Ran([], [], set())
        self._known: set[int] = set()

    def new(self) -> Ran:
        self.ran = Ran([], [], set())
        return self.ran

    def sent(self, cursor: psycopg.RawCursor[Any], text: str, values: Any) -> None:
        connection = cursor.connection
        if id(connection) not in self._known:
            self._known.add(id(connection))
            connection.add_notice_handler(self._issued)
        if text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
            self.ran.statements.append((text, values))

    def _issued(self, notice: Any) -> None:
        if (notice.message_primary or "").startswith("issuing"):
            self.ran.remote.append(notice.message_primary)
            self.ran.nodes.add(re.findall(r"@\S+", notice.message_detail)[0])


@pytest.fixture(scope="module")
def ran(postgres: Citus) -> Iterator[tuple[dict[str, Ran], Callable[[str, Any], int]]]:
    """What each operation sent, and what tells how many shards a statement asks."""
    url = postgres.fresh()
    logged = make_url(url).update_query_dict({"options": "-c citus.log_remote_commands=on"})
    found, listener, execute = {}, Listener(), psycopg.RawCursor.execute

    def executed(self: Any, text: str, values: Any = None, **options: Any) -> Any:
        listener.sent(self, text, values)
        return execute(self, text, values, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.RawCursor, "execute", executed)
        store = Store.open(logged)
        chat = store.create("chat")
        for number in range(12):
            chat.append("assistant" if number % 2 else "user", f"hello {number}")
        store.create("helper", parent="chat").append("user", "begin")  # which is in the other shard
        for name, operation in {**ONE_SESSION, **CROSSING}.items():
            found[name] = listener.new()
            operation(chat, store)
        store.close()
    with closing(psycopg.connect(url, autocommit=True)) as connection:

        def explained(text: str, values: Any) -> int:
            """0 is for a statement without a table. An append is only sent on in autocommit."""
            rows = psycopg.RawCursor(connection).execute(f"EXPLAIN {text}", values).fetchall()
            # A subplan comes first, and the statement that uses it asks the shards in its turn.
            return max(map(int, re.findall(r"Task Count: (\d+)", str(rows))), default=0)

        yield found, explained
    postgres.drop(url)


@pytest.mark.parametrize("operation", ONE_SESSION)
def test_operation_on_one_session_runs_on_its_shard(ran, operation):
    found, explained = ran
    one = found[operation]
    assert 1 in one.tasks(explained)
    assert set(one.tasks(explained)) <= {0, 1}
    # The coordinator asks one node, which commits by itself.
    assert one.remote
    assert len(one.nodes) == 1
    assert not one.is_in_two_phases()


@pytest.mark.parametrize("operation", CROSSING)
def test_operation_on_many_sessions_asks_each_shard_once_a_statement(ran, operation):
    found, explained = ran
    one = found[operation]
    # A copy of rows from one session to another is no plan that can be explained for parameters.
    is_copy = [text.startswith("INSERT INTO entries") and " SELECT " in text for text, _ in one[0]]
    asked = [explained(*each) for each, copies in zip(one[0], is_copy, strict=True) if not copies]
    assert max(asked, default=0) <= SHARDS
    many = sum(tasks > 1 for tasks in asked)
    assert f"| {operation} | {many} |" in PAGE.read_text().splitlines()


def test_append_is_one_message_to_one_node(ran):
    found, _ = ran
    assert len(found["append"].remote) == 1

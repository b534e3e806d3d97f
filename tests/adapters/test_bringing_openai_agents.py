"""Sessions that the OpenAI Agents SDK's own stores have written, imported without the SDK."""

import asyncio
import base64
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import EncryptedSession, SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from roocontext import Store
from roocontext.adapters.openai_agents import RooContextSession
from roocontext.formats import import_paths
from roocontext.formats.writing import SessionImport

QUESTION = {"role": "user", "content": "What is in the folder?"}
STEP: list[Any] = [
    {"id": "rs_1", "type": "reasoning", "summary": []},
    *(
        {"id": f"fc_{n}", "type": "function_call", "name": name, "arguments": args, "call_id": call}
        for n, name, args, call in (
            (1, "ls", '{"path": "."}', "call_1"),
            (2, "pwd", "{}", "call_2"),
        )
    ),
]
OUTPUTS = [
    {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
    {"type": "function_call_output", "call_id": "call_2", "output": "/work"},
]
PARTS = [{"type": "output_text", "text": "One file: ä.", "annotations": []}]
REPLY: Any = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
REPLY |= {"content": PARTS}
ITEMS = [QUESTION, *STEP, *OUTPUTS, REPLY]

Written = Callable[..., Any]


@pytest.fixture(params=["SQLiteSession", "SQLAlchemySession", "SQLAlchemySession on PostgreSQL"])
def source(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[str, Written]:
    """A place, and a function that runs a coroutine on a session there."""
    if "PostgreSQL" in request.param:
        place = request.getfixturevalue("server_url")
        url = place.replace("postgresql://", "postgresql+psycopg://")
    else:
        place = str(tmp_path / "agents.db")
        url = f"sqlite+aiosqlite:///{place}"

    def run(use: Any, name: str = "one", **options: Any) -> Any:
        async def with_session() -> Any:
            if request.param == "SQLiteSession":
                session = SQLiteSession(name, place, **options)
                try:
                    return await use(session)
                finally:
                    session.close()
            engine = create_async_engine(url)
            try:
                return await use(
                    SQLAlchemySession(name, engine=engine, create_tables=True, **options)
                )
            finally:
                await engine.dispose()

        return asyncio.run(with_session())

    return place, run


@pytest.fixture
def store(tmp_path: Any) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def imported(store: Store, place: str) -> list[SessionImport]:
    return [one for one in import_paths(store, [place]) if isinstance(one, SessionImport)]


def items_of(store: Store, name: str) -> Any:
    return asyncio.run(RooContextSession(name, store).get_items())


def test_session_is_imported_once_and_then_continued(store, source):
    place, run = source
    run(lambda session: session.add_items(ITEMS[:-1]))
    (first,) = imported(store, place)
    again = imported(store, place)
    run(lambda session: session.add_items(ITEMS[-1:]))
    (more,) = imported(store, place)
    assert (first.status, first.messages, first.problems) == ("created", 4, ())
    assert [(one.status, one.new) for one in again] == [("unchanged", 0)]
    assert (more.status, more.messages, more.controls) == ("continued", 1, 0)
    # An agent goes on with the SDK's adapter on the imported session.
    assert items_of(store, first.session_id) == run(lambda session: session.get_items())
    rows = [row.entry for row in store.session(first.session_id).audit() if row.visible]
    assert [row.role for row in rows] == ["user", "assistant", "user", "user", "assistant"]
    now = datetime.now(UTC)
    for row in rows:
        assert row.ts is not None
        written = datetime.fromtimestamp(row.ts / 1000, UTC)
        assert now - timedelta(minutes=5) < written < now + timedelta(seconds=2)


def test_output_that_is_stored_later_only_adds_itself(store, source):
    place, run = source
    run(lambda session: session.add_items([QUESTION, *STEP, OUTPUTS[0]]))
    imported(store, place)
    run(lambda session: session.add_items(OUTPUTS[1:]))
    (more,) = imported(store, place)
    assert (more.messages, more.controls) == (1, 0)
    assert store.session(more.session_id).pending() == []


def test_popped_item_is_a_rewind(store, source):
    place, run = source
    run(lambda session: session.add_items(ITEMS))
    imported(store, place)
    run(lambda session: session.pop_item())
    (after,) = imported(store, place)
    assert (after.status, after.messages, after.controls) == ("rewound", 0, 1)
    assert items_of(store, after.session_id) == ITEMS[:-1]


def test_tables_with_other_names_are_found(store, source):
    place, run = source
    names = {"sessions_table": "chats", "messages_table": "chat_items"}
    run(lambda session: session.add_items(ITEMS), **names)
    run(lambda session: session.add_items(ITEMS[:1]))
    found = {one.session_id: one.messages for one in imported(store, place)}
    assert found == {"openai-agents:chat_items:one": 5, "openai-agents:one": 1}


def test_encrypted_session_is_refused(store, source):
    place, run = source
    key = base64.urlsafe_b64encode(b"k" * 32).decode()
    run(lambda session: EncryptedSession("one", session, encryption_key=key).add_items(ITEMS))
    (one,) = imported(store, place)
    assert one.failed
    assert "its items are encrypted" in str(one.problems[0])


def test_tables_of_another_release_are_refused(store, tmp_path):
    place = tmp_path / "other.db"
    with closing(sqlite3.connect(place)) as file:
        file.execute("CREATE TABLE agent_messages (session_id, message_data)")
    (one,) = import_paths(store, [place])
    assert not isinstance(one, SessionImport)
    assert one.is_problem
    assert "its table agent_messages has no column created_at, id" in one.why

"""A read gives its connection back without a transaction, whatever became of its last statement."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import psycopg
import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.errors import SessionNotFound, StoreUnavailable
from support.dialogue import fill

ROWS = 12
READS: dict[str, Callable[[Any], Any]] = {
    "view": lambda chat: chat.view(),
    "rest of the view": lambda chat: chat.view(after=4),
    "newest page": lambda chat: chat.view(last=3),
    "view of the past": lambda chat: chat.view(as_of=ROWS - 2),
    "messages": lambda chat: chat.messages(),
    "info": lambda chat: chat.info(),
    "children": lambda chat: chat.children(),
    "head": lambda chat: chat.head(),
}
LAST_OF = {"view": "clearings", "rest of the view": "entries", "newest page": "clearings"}
"""A table that the last statement of a read needs, and none before it."""

_OTHERS = """FROM pg_stat_activity WHERE backend_type = 'client backend'
    AND datname = current_database() AND pid <> pg_backend_pid()
    AND application_name NOT LIKE 'citus%'"""  # the nodes of a cluster ask each other at any time
_STATES = f"SELECT DISTINCT state {_OTHERS}"
_WAITING = f"SELECT pid {_OTHERS} AND wait_event_type = 'Lock'"


@pytest.fixture(params=["sync", "async"])
def room(
    request: pytest.FixtureRequest, opened: Callable[..., Any], postgres: Any
) -> Iterator[Any]:
    """A store on PostgreSQL."""
    with opened("postgres", request.param) as lab:
        yield lab


@pytest.fixture
def admin(room: Any) -> Iterator[psycopg.Connection]:
    """Somebody else who is connected."""
    with psycopg.connect(room.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def chat(room: Any) -> Any:
    """A session of which a part is hidden."""
    chat = room.store.create("chat")
    fill(chat, ROWS)
    chat.commit(Plan.truncate(chat.view(), [2, 3], "M"))
    return chat


def test_read_leaves_no_transaction(room, chat, admin):
    for name, read in READS.items():
        read(chat)
        assert admin.execute(_STATES).fetchall() == [("idle",)], name
    with pytest.raises(SessionNotFound):
        room.store.session("none")
    assert admin.execute(_STATES).fetchall() == [("idle",)]


@pytest.mark.parametrize("name", LAST_OF)
def test_error_of_the_last_statement_is_raised(chat, admin, name):
    before = READS[name](chat)
    with _renamed(admin, LAST_OF[name]), pytest.raises(StoreUnavailable) as raised:
        READS[name](chat)
    assert raised.value.facts["code"] == "42P01"
    assert READS[name](chat) == before
    assert admin.execute(_STATES).fetchall() == [("idle",)]


@pytest.mark.parametrize("name", LAST_OF)
def test_server_that_hangs_up_during_the_last_statement_is_an_error(room, chat, admin, name):
    before = READS[name](chat)

    def hang_up() -> None:
        with psycopg.connect(room.url, autocommit=True) as other:
            while not (waiting := other.execute(_WAITING).fetchall()):
                pass
            other.execute("SELECT pg_terminate_backend(%s::int)", waiting[0])

    with ThreadPoolExecutor(1) as threads:
        with admin.transaction():
            admin.execute(f"LOCK TABLE {LAST_OF[name]}")
            hanging_up = threads.submit(hang_up)
            with pytest.raises(StoreUnavailable):
                READS[name](chat)
        hanging_up.result()
    assert READS[name](chat) == before


def test_view_is_of_one_moment_while_others_write(room):
    chat, over = room.store.create(), Event()

    def write() -> None:
        with Store.open(room.url, durability="normal") as store:
            same = store.session(chat.id)
            while not over.is_set():
                same.append_many([NewMessage("user", f"{number}") for number in range(3)])
                same.rewind(0)

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        for _ in range(100):
            view = chat.view()
            assert len(view.messages) in (0, 3)
            assert {message.seq for message in view.messages} <= {
                *range(view.seq - 2, view.seq + 1)
            }
        over.set()
        writing.result()


@contextmanager
def _renamed(admin: psycopg.Connection, table: str) -> Iterator[None]:
    admin.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    try:
        yield
    finally:
        admin.execute(f"ALTER TABLE elsewhere RENAME TO {table}")

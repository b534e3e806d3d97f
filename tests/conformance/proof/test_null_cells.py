"""A view of a PostgreSQL whose NOT NULL constraints somebody dropped: NULL is never passed over."""

from typing import Any

import pytest

from roocontext import Plan
from roocontext.errors import HistoryCorrupt
from support.dialogue import fill, work

CELLS = {
    "sessions": ("last_seq", "head_seq"),
    "spans": ("hi", "position"),
    "entries": ("kind", "recorded_at"),
    "clearings": ("placeholder",),
}


@pytest.fixture
def room(opened: Any) -> Any:
    """A store on PostgreSQL."""
    with opened("postgres", "sync") as lab:
        yield lab


def test_null_in_a_required_column_is_an_error(room: Any) -> None:
    room.drop_guards()
    for table, columns in CELLS.items():
        for column in columns:
            chat = room.store.create()
            fill(chat, 3)
            _, answer = work(chat)
            chat.commit(Plan.clear(chat.view(), [(answer, 0)], "gone"))
            room.sql(
                f"ALTER TABLE {table} ALTER {column} DROP NOT NULL",
                f"UPDATE {table} SET {column} = NULL WHERE session_id = '{chat.id}'",
            )
            for read in (chat.view, chat.messages, chat.repairs):
                with pytest.raises(HistoryCorrupt, match=rf"^{table}\.{column} holds NULL"):
                    read()

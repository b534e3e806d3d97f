"""How many messages and bytes the spans hold: running totals subtracted, and no content read."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, case, func, select, text
from sqlalchemy.sql import Select

from roocontext.errors import HistoryCorrupt
from roocontext.store.database import Transaction
from roocontext.store.schema import REWOUND, VISIBLE, entries, spans


class Total(NamedTuple):
    """How many messages, and how many bytes their contents take."""

    messages: int
    bytes: int

    def __sub__(self, other: "Total") -> "Total":
        return Total(self.messages - other.messages, self.bytes - other.bytes)


def _held(condition: str) -> Select[int, int, int]:
    last = bindparam("last", type_=spans.c.hi.type)
    end = case((spans.c.hi > last, last), else_=spans.c.hi)

    def within(running: ColumnElement[int]) -> ColumnElement[int]:
        # Subqueries, because PostgreSQL would come to hash a join with all rows of the session.
        at = select(running).where(entries.c.session_id == spans.c.session_id)
        ending = at.where(entries.c.seq == end).scalar_subquery()
        before = at.where(entries.c.seq == spans.c.lo - 1).scalar_subquery()
        return ending - case((spans.c.lo == 1, 0), else_=before)

    # A span that begins behind the last entry holds nothing, and comes out as nothing. A condition
    # on `lo` would lead SQLite away from the partial index.
    held = (
        select(
            within(entries.c.messages_total).label("messages"),
            within(entries.c.bytes_total).label("size"),
        )
        .where(spans.c.session_id == bindparam("session_id"), text(condition))
        .subquery()
    )
    return select(
        func.coalesce(func.sum(held.c.messages), 0),
        func.coalesce(func.sum(held.c.size), 0),
        func.count() - func.count(held.c.messages),
    ).select_from(held)


_VISIBLE = _held(VISIBLE)
_REWOUND = _held(REWOUND)


def visible_total(tx: Transaction, session_id: str, last: int) -> Total:
    """What the model sees of a session whose last entry is `last`."""
    return _total(tx, _VISIBLE, session_id, last)


def rewound_total(tx: Transaction, session_id: str, last: int) -> Total:
    """What rewinds took back."""
    return _total(tx, _REWOUND, session_id, last)


def _total(tx: Transaction, statement: Select[int, int, int], session_id: str, last: int) -> Total:
    if last == 0:
        return Total(0, 0)
    row = tx.row(statement, session_id=session_id, last=last)
    assert row is not None
    messages, size, unknown = row
    if unknown:
        raise HistoryCorrupt(f"Session {session_id!r} has a span whose end is not in its log.")
    return Total(int(messages), int(size))

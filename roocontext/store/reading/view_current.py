"""Reading the whole view as it is now, which programs do most: a leaf of its own for each engine.

On PostgreSQL it is one statement, which is a snapshot by itself. On SQLite, which has no round
trips to save, it is a few. Both find the rows of a span by a range of the log's key.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    text,
    true,
)

from roocontext.log.encoding import decode
from roocontext.log.entries import View
from roocontext.log.moments import Point
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import LAST, VISIBLE, clearings, entries, sessions, spans
from roocontext.store.engine.shapes import checked_rows
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import read_head
from roocontext.store.reading.view import (
    CLEARED,
    IS_MESSAGE,
    SHOWN,
    VISIBLE_SPANS,
    placeholders,
    read_view,
    shown_messages,
)

_of_session = sessions.c.session_id == bindparam("session_id")
_in_log = entries.c.session_id == bindparam("session_id")
_is_visible = and_(spans.c.session_id == bindparam("session_id"), text(VISIBLE))
_is_cleared = clearings.c.session_id == bindparam("session_id")
_COLUMNS = SHOWN.selected_columns
_SPAN_COLUMNS = VISIBLE_SPANS.selected_columns


def _rows_of_spans() -> Select[Any]:
    """The rows of all visible spans, in view order, on SQLite."""
    within = entries.c.seq.between(func.max(spans.c.lo, 1), func.min(spans.c.hi, LAST))
    return (
        select(*_COLUMNS)
        .select_from(spans.join(entries, and_(_in_log, within, IS_MESSAGE)))
        .where(_is_visible)
        # With the rowid it is the order of both indexes, so that nothing is sorted.
        .order_by(spans.c.position, literal_column("spans.rowid"), entries.c.seq)
    )


def _whole_view() -> Select[Any]:
    """The same on PostgreSQL, each with its cleared blocks and the head of the session.

    A span without messages is a row of NULLs, so that a session has a row even if its view is
    empty. The head is NULL if the session was purged.
    """
    head_seq = case((sessions.c.purged_at.is_(None), sessions.c.head_seq)).label("head_seq")
    span = (
        select(spans.c.lo, spans.c.hi, spans.c.position, sessions.c.last_seq, head_seq)
        .select_from(sessions.outerjoin(spans, _is_visible))
        .where(_of_session)
        .order_by(spans.c.position)
        .subquery("span")
    )
    # LATERAL, and in order: the server keeps the order of the spans and of the rows in each. For a
    # plain join it would read the whole log, and sort it.
    shown = (
        select(*_COLUMNS)
        .where(
            _in_log,
            entries.c.seq.between(span.c.lo, span.c.hi),
            entries.c.seq.between(literal_column("1"), span.c.last_seq),
            IS_MESSAGE,
        )
        .order_by(entries.c.seq)
        .lateral("shown")
    )
    # Whether there are any is asked once, and not for each row. It is asked for the first one: for
    # EXISTS the server would read the clearings of all sessions, as it hopes to find one soon.
    first = select(clearings.c.seq).where(_is_cleared).order_by(clearings.c.seq).limit(1)
    block = func.json_build_array(
        *(clearings.c.block, clearings.c.placeholder, clearings.c.head, clearings.c.tail)
    )
    # As text: an application may have changed what its psycopg makes of JSON.
    blocks = select(cast(func.json_agg(block), Text)).where(
        _is_cleared, clearings.c.seq == shown.c.seq
    )
    cleared = case((first.scalar_subquery().is_not(None), blocks.scalar_subquery()))
    return (
        select(
            *(column.label(column.name) for column in shown.c),
            cleared.label("cleared"),
            *(span.c[name].label(name) for name in ("last_seq", "head_seq")),
            func.num_nulls(*(span.c[column.name] for column in _SPAN_COLUMNS)).label("nulls"),
        )
        .select_from(span.outerjoin(shown, true()))
        .order_by(span.c.position)
    )


_ROWS_OF_SPANS = _rows_of_spans()
_WHOLE_VIEW = _whole_view()
_SHOWN = slice(len(_COLUMNS))
_CLEARED_AT = len(_COLUMNS)
_HEAD = slice(_CLEARED_AT + 1, _CLEARED_AT + 3)
_NULLS_AT = _CLEARED_AT + 3
_NULLS = {0, len(_SPAN_COLUMNS)}
"""How many columns of a span are NULL: none, or all in the row of a view without spans."""


def view_now(database: Database, session_id: str) -> View:
    """The view as it is now."""
    if database.has_round_trips:
        return database.lookup(_by_one_statement, session_id)
    return database.snapshot(_by_spans, session_id)


def view_at(tx: Transaction, session_id: str, as_of: Point) -> View:
    """The whole view, now or at a point in time."""
    if as_of is not None:
        return read_view(tx, session_id, as_of=as_of)
    read = _by_one_statement if tx.has_round_trips else _by_spans
    return read(tx, session_id)


def _by_one_statement(tx: Transaction, session_id: str) -> View:
    while not _is_whole(rows := tx.rows(_WHOLE_VIEW, session_id=session_id)):
        # These raise the reason, unless the session was created or rebuilt in between.
        read_head(tx, session_id)
        tx.rows(VISIBLE_SPANS, session_id=session_id)
    shown = [row for row in rows if row[0] is not None]
    blocks = [
        (row[0], *block)
        for row in shown
        if row[_CLEARED_AT] is not None
        for block in decode(row[_CLEARED_AT])
    ]
    cleared = placeholders(checked_rows(CLEARED, blocks))
    messages = shown_messages(checked_rows(SHOWN, [row[_SHOWN] for row in shown]), cleared)
    last_seq, head_seq = rows[0][_HEAD]
    return View(session_id, last_seq, head_seq, tuple(messages))


def _is_whole(rows: Sequence[SqlRow]) -> bool:
    """Whether the rows have a head, and none of their spans is damaged."""
    return bool(rows) and None not in rows[0][_HEAD] and {row[_NULLS_AT] for row in rows} <= _NULLS


def _by_spans(tx: Transaction, session_id: str) -> View:
    head = read_head(tx, session_id)
    # Read only to be checked: the join would pass over a damaged one (0020).
    tx.rows(VISIBLE_SPANS, session_id=session_id)
    cleared = placeholders(tx.rows(CLEARED, session_id=session_id))
    messages = shown_messages(tx.rows(_ROWS_OF_SPANS, session_id=session_id), cleared)
    return View(session_id, head.last_seq, head.head_seq, tuple(messages))

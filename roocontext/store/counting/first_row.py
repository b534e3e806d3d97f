"""The first statement of a check: the head, and all else that is one row of a session.

A distant server, or the nodes of a cluster, take a message there and back for each statement.
"""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, and_, bindparam, literal_column, select

from roocontext.store.engine.schema import (
    IN_LOG,
    clearings,
    entries,
    newest_control,
    of_session,
    sessions,
)
from roocontext.store.engine.shapes import checked_rows, whole_number
from roocontext.store.engine.transaction import Query, SqlRow
from roocontext.store.loop.frame import RECORDED_COLUMNS, Recorded
from roocontext.store.reading.head import HEAD_COLUMNS, SessionHead, to_head
from roocontext.store.reading.notes import (
    FRAME,
    HAS_NO_TARGET,
    NOTE_COLUMNS,
    Note,
    newest_note_of,
    to_note,
)
from roocontext.store.reading.view import COVERING

_first_cleared = (
    select(clearings.c.seq)
    .where(of_session(clearings))
    .order_by(clearings.c.seq)
    .limit(1)
    .scalar_subquery()
)


def _newest(kind: ColumnElement[str]) -> ScalarSelect[Any]:
    """The newest note of a kind that has no target."""
    newest = newest_note_of(entries.c.seq, kind=kind, until=IN_LOG)
    return newest.where(HAS_NO_TARGET).scalar_subquery()


_note, _frame = entries.alias("note"), entries.alias("frame")
_of_note, _of_frame = select(*NOTE_COLUMNS), select(*RECORDED_COLUMNS)
_FIRST = (
    select(
        *HEAD_COLUMNS,
        newest_control("seq").scalar_subquery(),
        _first_cleared.is_not(None),
        COVERING.scalar_subquery().is_not(None),
        # With labels, because a column of an outer join may be NULL: they are checked below.
        *(_note.c[column.name].label(f"note_{column.name}") for column in NOTE_COLUMNS),
        *(_frame.c[column.name].label(f"frame_{column.name}") for column in RECORDED_COLUMNS),
    )
    .select_from(
        sessions.outerjoin(
            _note, and_(of_session(_note), _note.c.seq == _newest(bindparam("note")))
        ).outerjoin(
            _frame, and_(of_session(_frame), _frame.c.seq == _newest(literal_column(f"'{FRAME}'")))
        )
    )
    .where(of_session(sessions))
)
_NEWEST = select(*(_note.c[column.name] for column in NOTE_COLUMNS)).where(
    of_session(_note), _note.c.seq == _newest(bindparam("note"))
)
_HEAD = len(HEAD_COLUMNS)
_NOTE = _HEAD + 3
_FRAME = _NOTE + len(NOTE_COLUMNS)


class FirstRow(NamedTuple):
    """The head, the newest control row or 0, what the view has, the newest note, the frame."""

    head: SessionHead
    changed: int
    has_cleared: bool
    has_coverings: bool
    note: Note | None
    frame: Recorded | None


def first_query(note: str) -> Query:
    """The query for the first row, with the newest note of a kind."""
    return _FIRST, {"note": note}


def note_query(note: str) -> Query:
    """The query for the newest note of another kind."""
    return _NEWEST, {"note": note}


def to_first(session_id: str, rows: list[SqlRow]) -> FirstRow:
    """Make the first row from the rows of that query, or raise the error that there is none."""
    head = to_head(session_id, [row[:_HEAD] for row in rows])
    changed, has_cleared, has_coverings = rows[0][_HEAD:_NOTE]
    note, frame = rows[0][_NOTE:_FRAME], rows[0][_FRAME:]
    notes = checked_rows(_of_note, [note] if note[0] is not None else [])
    frames = checked_rows(_of_frame, [frame] if frame[0] is not None else [])
    return FirstRow(
        head,
        0 if changed is None else whole_number(changed),
        bool(has_cleared),
        bool(has_coverings),
        to_note(*notes[0]) if notes else None,
        Recorded(*frames[0]) if frames else None,
    )

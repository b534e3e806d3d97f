"""What a check reads first: the head, and all that is one row of a session, in one statement.

A distant server, or the nodes of a cluster, take a message there and back for each statement.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    ScalarSelect,
    Text,
    and_,
    bindparam,
    literal_column,
    select,
)

from roocontext.store.engine.schema import clearings, entries, of_session, sessions
from roocontext.store.engine.shapes import checked_rows, whole_number
from roocontext.store.engine.transaction import Query, SqlRow
from roocontext.store.loop.frame import RECORDED_COLUMNS, Recorded
from roocontext.store.reading.head import HEAD_COLUMNS, SessionHead, to_head
from roocontext.store.reading.notes import FRAME, NOTE_COLUMNS, Note, to_note
from roocontext.store.reading.view import COVERING

_ONE = literal_column("1", BigInteger)
_last = select(sessions.c.last_seq).where(of_session(sessions)).correlate(None).scalar_subquery()
_in_log = entries.c.seq.between(_ONE, _last)
_newest_control = (
    select(entries.c.seq)
    .where(of_session(entries), entries.c.details.is_not(None), _in_log)
    .order_by(entries.c.seq.desc())
    .limit(_ONE)
    .scalar_subquery()
)
_first_cleared = (
    select(clearings.c.seq)
    .where(of_session(clearings))
    .order_by(clearings.c.seq)
    .limit(_ONE)
    .scalar_subquery()
)


def _newest(kind: ColumnElement[str]) -> ScalarSelect[Any]:
    """The newest note of a kind that has no target."""
    return (
        select(entries.c.seq)
        .where(
            of_session(entries),
            entries.c.note.is_not(None),
            entries.c.note == kind,
            entries.c.target.is_(None),
            _in_log,
        )
        # In the order of the index, as everywhere.
        .order_by(entries.c.target.desc(), entries.c.seq.desc())
        .limit(_ONE)
        .scalar_subquery()
    )


MOST_NOTES: Final = 2
_notes = [(f"note{number}", entries.alias(f"note{number}")) for number in range(MOST_NOTES)]
_frame = entries.alias("frame")
_joined: FromClause = sessions
_kinds: list[ColumnElement[str]] = [*(bindparam(name) for name, _ in _notes)]
for _row, _kind in zip(
    (*(note for _, note in _notes), _frame),
    (*_kinds, literal_column(f"'{FRAME}'", Text)),
    strict=True,
):
    _joined = _joined.outerjoin(_row, and_(of_session(_row), _row.c.seq == _newest(_kind)))
_of_note, _of_frame = select(*NOTE_COLUMNS), select(*RECORDED_COLUMNS)
_FIRST = (
    select(
        *HEAD_COLUMNS,
        _newest_control,
        _first_cleared.is_not(None),
        COVERING.scalar_subquery().is_not(None),
        # With labels, because a column of an outer join may be NULL: they are checked below.
        *(
            note.c[column.name].label(f"{name}_{column.name}")
            for name, note in _notes
            for column in NOTE_COLUMNS
        ),
        *(_frame.c[column.name].label(f"frame_{column.name}") for column in RECORDED_COLUMNS),
    )
    .select_from(_joined)
    .where(of_session(sessions))
)
_HEAD = len(HEAD_COLUMNS)
_NOTES = _HEAD + 3
_FRAME = _NOTES + MOST_NOTES * len(NOTE_COLUMNS)


class FirstRow(NamedTuple):
    """The head, the newest control row or 0, what the view has, the newest notes, the frame."""

    head: SessionHead
    changed: int
    has_cleared: bool
    has_coverings: bool
    notes: Mapping[str, Note]
    frame: Recorded | None


def first_query(session_id: str, kinds: Sequence[str]) -> Query:
    """The query for the first row, with the newest note of each kind."""
    assert len(kinds) <= MOST_NOTES
    kinds = [*kinds, *[""] * (MOST_NOTES - len(kinds))]
    notes = {name: kind for (name, _), kind in zip(_notes, kinds, strict=True)}
    return _FIRST, {"session_id": session_id, **notes}


def to_first(session_id: str, rows: list[SqlRow]) -> FirstRow:
    """Make the first row from the rows of that query, or raise the error that there is none."""
    head = to_head(session_id, [row[:_HEAD] for row in rows])
    changed, has_cleared, has_coverings = rows[0][_HEAD:_NOTES]
    width = len(NOTE_COLUMNS)
    notes = [rows[0][at : at + width] for at in range(_NOTES, _FRAME, width)]
    frame = rows[0][_FRAME:]
    newest = checked_rows(_of_note, [note for note in notes if note[0] is not None])
    frames = checked_rows(_of_frame, [frame] if frame[0] is not None else [])
    return FirstRow(
        head,
        0 if changed is None else whole_number(changed),
        bool(has_cleared),
        bool(has_coverings),
        {note.note: note for note in (to_note(*row) for row in newest)},
        Recorded(*frames[0]) if frames else None,
    )

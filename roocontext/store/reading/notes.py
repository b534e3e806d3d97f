"""Notes: all of a kind, the newest of a kind and target, and those that a client id names.

A note is chained like any entry, but no model sees it and no rewind takes it back. Among notes of
the same kind and target, the newest is current.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, TextClause, and_, bindparam, literal_column, select

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode
from roocontext.log.times import ORIGIN
from roocontext.log.values import Value
from roocontext.store.engine.schema import IN_LOG, LAST, UP_TO_SEQ, entries, of_session
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow

PIN = "pin"
TITLE = "title"
METADATA = "metadata"
FRAME = "frame"
REDACTION = "redaction"
BEGUN = "begun"
EXTRACT = "extract"
OWN = frozenset({PIN, TITLE, METADATA, ORIGIN, FRAME, REDACTION, BEGUN, EXTRACT})
"""The kinds that the store interprets, and that only it may write."""
_CONTENTS: Mapping[str, tuple[str, type]] = {
    PIN: ("pinned", bool),
    TITLE: ("title", str),
    METADATA: ("metadata", dict),
    FRAME: ("tools", list),
    REDACTION: ("digest", str),
    BEGUN: ("block", int),
    EXTRACT: ("text", str),
}
"""The key that the content of a note of each kind has, and the type of its value."""


@dataclass(frozen=True, slots=True)
class Note(Value):
    """A stored note."""

    seq: int
    note: str
    target: int | None
    content: Any
    recorded_at: int


NOTE_COLUMNS = tuple(
    entries.c[name] for name in ("seq", "note", "target", "content", "recorded_at")
)
HAS_NO_TARGET = entries.c.target.is_(None)
_GIVEN: ColumnElement[str] = bindparam("note")


def _of_kind(kind: ColumnElement[str] | TextClause) -> ColumnElement[bool]:
    return and_(of_session(entries), entries.c.note.is_not(None), entries.c.note == kind)


def _up_to(last: ColumnElement[int], *columns: ColumnElement[Any]) -> Select[Any]:
    """All notes of a kind up to a seq, or these columns of them."""
    # Not by seq, and in the index's own order: SQLite would walk the whole session instead.
    in_log = (entries.c.seq + literal_column("0")).between(literal_column("1"), last)
    notes = select(*(columns or NOTE_COLUMNS)).where(_of_kind(_GIVEN), in_log)
    return notes.order_by(entries.c.target, entries.c.seq)


_NOTES = _up_to(bindparam("seq"))
_ALL_NOTES = _up_to(LAST)
_PLACES = _up_to(bindparam("seq"), entries.c.seq, entries.c.target)
"""Read from the index alone."""
_BY_SEQ = select(*NOTE_COLUMNS).where(of_session(entries), entries.c.seq == bindparam("seq"))
_NOTES_ON = _NOTES.where(entries.c.target == bindparam("target"))


def newest_note_of(
    *columns: ColumnElement[Any],
    kind: ColumnElement[str] | TextClause = _GIVEN,
    until: ColumnElement[bool] | None = None,
) -> Select[Any]:
    """Make the statement for the newest note of a kind, to which the target is to be added.

    It is the newest up to the parameter `seq`, unless another condition is given.
    """
    return (
        select(*columns)
        .where(_of_kind(kind), UP_TO_SEQ if until is None else until)
        # By the target too, although it is one: PostgreSQL does not take IS NULL for a constant,
        # and would sort all notes of the kind.
        .order_by(entries.c.target.desc(), entries.c.seq.desc())
        .limit(1)
    )


_of_note = newest_note_of(*NOTE_COLUMNS, entries.c.hash)
_NEWEST = _of_note.where(HAS_NO_TARGET)
_NEWEST_OF_TARGET = _of_note.where(entries.c.target == bindparam("target"))
_BY_CLIENT_ID = select(*NOTE_COLUMNS).where(
    of_session(entries), entries.c.client_id == bindparam("client_id"), IN_LOG
)
_BY_KIND = (
    select(*NOTE_COLUMNS)
    .where(
        of_session(entries),
        entries.c.note.is_not(None),
        entries.c.note >= bindparam("beginning"),
        entries.c.note < bindparam("before"),
        HAS_NO_TARGET,
        IN_LOG,
    )
    # The order of the index, so that nothing is sorted.
    .order_by(entries.c.note.desc(), entries.c.target.desc(), entries.c.seq.desc())
    .limit(bindparam("page"))
)
_LAST = "\U0010ffff"
"""The greatest code point: a kind that continues after its beginning is smaller than this."""


def read_notes(log: SessionLog, note: str, seq: int) -> list[Note]:
    """Read all notes of a kind up to a seq, oldest first."""
    return to_notes(log.rows(_NOTES, note=note, seq=seq))


def notes_page(
    log: SessionLog,
    note: str,
    seq: int,
    *,
    target: int | None,
    newest: bool,
    after: int,
    limit: int,
) -> tuple[list[Note], int | None]:
    """Read some notes of a kind up to a seq, oldest first, and after which the next page begins.

    They are those about a target, or about any and none; with `newest`, the last about each. Only
    the contents of the page are read.
    """
    places = log.rows(_PLACES, note=note, seq=seq)
    chosen = [(about, place) for place, about in places if target in (None, about)]
    if newest:
        chosen = [*dict(chosen).items()]
    found = sorted(place for _, place in chosen if place > after)
    page = found[:limit]
    rows = log.all([(_BY_SEQ, {"seq": place}) for place in page])
    return [to_note(*row) for (row,) in rows], page[-1] if len(page) < len(found) else None


def notes_on(log: SessionLog, note: str, target: int, seq: int) -> list[Note]:
    """Read all notes of a kind on one entry up to a seq, oldest first."""
    return to_notes(log.rows(_NOTES_ON, note=note, target=target, seq=seq))


def to_notes(rows: Sequence[SqlRow]) -> list[Note]:
    """Make notes of their columns, oldest first."""
    # By seq: the statement has the order of the index, which is by target first.
    return [to_note(*row) for row in sorted(rows)]


def to_note(seq: int, note: str, target: int | None, content: str, recorded_at: int) -> Note:
    """Make a note of its columns; HistoryCorrupt if it has not the content of its kind."""
    try:
        decoded = decode(content)
    except HistoryCorrupt:
        decoded = None
    key, type_ = _CONTENTS.get(note, ("", object))
    if not isinstance(decoded, dict) or not isinstance(decoded.get(key), type_):
        raise HistoryCorrupt(
            f"Entry {seq} does not have the content of a note of its kind.", seq=seq
        )
    return Note(seq, note, target, decoded, recorded_at)


def newest_note(log: SessionLog, note: str, target: int | None, seq: int) -> Note | None:
    """Read the note of a kind and target that is current at a seq."""
    row = newest_row(log, note, target, seq)
    return None if row is None else to_note(*row[:-1])


def newest_row(log: SessionLog, note: str, target: int | None, seq: int) -> SqlRow | None:
    """Read the columns of that note, and its hash."""
    of = {"note": note, "seq": seq}
    if target is None:
        return log.row(_NEWEST, **of)
    return log.row(_NEWEST_OF_TARGET, **of, target=target)


def newest_query(note: str, seq: int) -> Query:
    """The query for the newest note of a kind up to a seq, if it has no target."""
    return _NEWEST, {"note": note, "seq": seq}


def to_newest(rows: Sequence[SqlRow]) -> Note | None:
    """The note from the rows of that query."""
    return to_note(*rows[0][:-1]) if rows else None


def pinned(log: SessionLog, seq: int) -> dict[int, int]:
    """Read the messages that are pinned at a seq, with the notes that pin them."""
    return to_pins(log.rows(_NOTES, note=PIN, seq=seq))


def notes_query(note: str, seq: int | None = None) -> Query:
    """The query for all notes of a kind, up to a seq if there is one."""
    return (_ALL_NOTES, {"note": note}) if seq is None else (_NOTES, {"note": note, "seq": seq})


def to_redacted(rows: Sequence[SqlRow], *, after: int) -> set[int]:
    """The messages that were redacted after a seq, from the rows of that query."""
    return {note.target for note in to_notes(rows) if note.target is not None and note.seq > after}


def to_pins(rows: Sequence[SqlRow]) -> dict[int, int]:
    """The pinned messages and the notes that pin them, from the rows of that query."""
    # Oldest first, so that the newest note of each target stays.
    newest = {note.target: note for note in to_notes(rows) if note.target is not None}
    return {seq: note.seq for seq, note in newest.items() if note.content["pinned"]}


def written_by(log: SessionLog, client_ids: Sequence[str]) -> dict[str, Note]:
    """Read the notes that were written with these client ids, by client id."""
    queries = [(_BY_CLIENT_ID, {"client_id": client_id}) for client_id in client_ids]
    return {
        client_id: to_note(*rows[0])
        for client_id, rows in zip(client_ids, log.all(queries), strict=True)
        if rows and rows[0][1] is not None  # a message may have the id
    }


def newest_of_kinds(
    log: SessionLog, beginning: str, *, before: str | None, limit: int
) -> list[Note]:
    """Read the newest note without a target of each kind that begins like this, greatest first."""
    newest: dict[str, Note] = {}
    end = beginning + _LAST if before is None else before
    while len(newest) < limit:
        page = limit - len(newest)
        rows = log.rows(_BY_KIND, beginning=beginning, before=end, page=page)
        for row in rows:
            if row[1].startswith(beginning):
                newest.setdefault(row[1], to_note(*row))
        if len(rows) < page:
            break
        end = rows[-1][1]
    return list(newest.values())

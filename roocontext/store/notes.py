"""Notes: pins, title, metadata and other facts that are logged beside the conversation.

A note is chained like any entry, but no model sees it, no rewind takes it back, and writing one
conflicts with no other writer. Among notes of the same kind and target, the newest counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Select, bindparam, literal_column, select, update

from roocontext.errors import HistoryCorrupt, InvalidOption, MessageNotFound
from roocontext.log.draft import Draft, Salts, note_draft
from roocontext.log.encoding import check_id, decode, encode, plain
from roocontext.log.times import ORIGIN
from roocontext.store.append import Receipt, Stored, first_receipt, stored_by, write
from roocontext.store.as_of import head_at
from roocontext.store.check_arguments import check_mapping, check_maybe, check_whole
from roocontext.store.engine.transaction import Query, SqlRow, Transaction
from roocontext.store.facts import are_fresh, set_facts
from roocontext.store.head import SessionHead, lock
from roocontext.store.items import AnyNote, Describe, NewNote, Pin, Rename, Unpin
from roocontext.store.schema import IN_LOG, LAST, UP_TO_SEQ, entries, sessions

PIN = "pin"
TITLE = "title"
METADATA = "metadata"
FRAME = "frame"
REDACTION = "redaction"
BEGUN = "begun"
OWN = frozenset({PIN, TITLE, METADATA, ORIGIN, FRAME, REDACTION, BEGUN})
"""The kinds that the store interprets, and that only it may write."""
_STATES = frozenset({PIN, TITLE, METADATA})
"""The kinds that hold a state: writing the same state again writes nothing."""
_SAYS: Mapping[str, tuple[str, type]] = {
    PIN: ("pinned", bool),
    TITLE: ("title", str),
    METADATA: ("metadata", dict),
    FRAME: ("tools", list),
    REDACTION: ("digest", str),
    BEGUN: ("block", int),
}
"""The key and the type of value that the store reads in a note of each kind."""


@dataclass(frozen=True, slots=True)
class Note:
    """A stored note."""

    seq: int
    note: str
    target: int | None
    content: Any
    recorded_at: int


class Drafted(NamedTuple):
    """An entry to be written, and what the list of sessions shows of a title or metadata."""

    draft: Draft
    shown: Any = None


def drafted(item: AnyNote, *, now: int, salts: Salts) -> Drafted:
    """Draft a note, or raise the error that says why it cannot be stored."""
    target: int | None = None
    ts, shown = None, None
    match item:
        case NewNote():
            kind, content, target, ts = item.note, item.content, item.target, item.ts
            check_id("note", kind)
            if kind in OWN:
                raise InvalidOption(
                    f"A note of the kind {kind!r} is reserved for the store.", name="note"
                )
            check_mapping("content", content)
            check_maybe("target", target, least=1)
        case Rename(title):
            check_id("title", title)
            kind, content, shown = TITLE, {"title": title}, title
        case Describe(metadata):
            check_mapping("metadata", metadata)
            shown = plain(dict(metadata))
            kind, content = METADATA, {METADATA: shown}
        case Pin(seq) | Unpin(seq):
            check_whole("seq", seq, least=1)
            kind, content, target = PIN, {"pinned": isinstance(item, Pin)}, seq
    draft = note_draft(
        kind,
        content,
        now=now,
        salts=salts,
        target=target,
        ts=ts,
        client_id=item.client_id,
    )
    return Drafted(draft, shown)


def _up_to(last: ColumnElement[int]) -> Select[Any]:
    """All notes of a kind up to a seq."""
    return (
        select(
            *(entries.c.seq, entries.c.note, entries.c.target),
            *(entries.c.content, entries.c.recorded_at),
        )
        .where(
            entries.c.session_id == bindparam("session_id"),
            entries.c.note.is_not(None),
            entries.c.note == bindparam("note"),
            # Not by seq, and in the index's own order: SQLite would walk the whole session instead.
            (entries.c.seq + literal_column("0")).between(literal_column("1"), last),
        )
        .order_by(entries.c.target, entries.c.seq)
    )


_NOTES = _up_to(bindparam("seq"))
_ALL_NOTES = _up_to(LAST)
_NOTES_ON = _NOTES.where(entries.c.target == bindparam("target"))


def newest_of(*columns: ColumnElement[Any]) -> Select[Any]:
    """The statement that reads columns of the newest note of a kind; its target is still open."""
    return (
        select(*columns)
        .where(
            entries.c.session_id == bindparam("session_id"),
            entries.c.note.is_not(None),
            entries.c.note == bindparam("note"),
            UP_TO_SEQ,
        )
        # By the target too, although it is one: PostgreSQL does not take IS NULL for a constant,
        # and would sort all notes of the kind.
        .order_by(entries.c.target.desc(), entries.c.seq.desc())
        .limit(1)
    )


HAS_NO_TARGET = entries.c.target.is_(None)
_of_note = newest_of(
    entries.c.seq,
    entries.c.note,
    entries.c.target,
    entries.c.content,
    entries.c.recorded_at,
    entries.c.hash,
)
_NEWEST = _of_note.where(HAS_NO_TARGET)
_NEWEST_OF_TARGET = _of_note.where(entries.c.target == bindparam("target"))
_MESSAGE = select(entries.c.kind).where(
    entries.c.session_id == bindparam("session_id"), entries.c.seq == bindparam("target"), IN_LOG
)
_SET_TITLE = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(title=bindparam("new_title"))
)
_SET_METADATA = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(metadata=bindparam("new_metadata"))
)


_SHOWN = select(sessions.c.title, sessions.c.metadata).where(
    sessions.c.session_id == bindparam("session_id")
)


def write_note(tx: Transaction, session_id: str, new: Drafted) -> Receipt:
    """Write a note. If its client id was stored before, return the first receipt.

    A pin, title or metadata that changes nothing is not written. Its receipt is then that of the
    note that already counts or, if there is none, that of the last entry.
    """
    head = lock(tx, session_id)
    # A repeated request gets its receipt even if the same state was written again since.
    found = stored_by(tx, session_id, [new.draft.sealed.client_id])
    if first := first_note(tx, session_id, new.draft, found):
        return first
    check_target_exists(tx, session_id, new.draft, head.last_seq)
    if known := _known(tx, session_id, head, new.draft):
        return known
    (receipt,) = write(tx, session_id, head, [new.draft])
    set_title(tx, session_id, new.draft.sealed.note, new.shown)
    return receipt


def first_note(
    tx: Transaction, session_id: str, draft: Draft, found: Mapping[str, Stored]
) -> Receipt | None:
    """The receipt of the note that was `found` by the draft's client id, if any was."""
    first = first_receipt(tx, session_id, draft, found)
    if first is None:
        return None
    # A note moves no head, and no rewind takes it back, whatever happened to the rows around it.
    return replace(first, head_seq=head_at(tx, session_id, first.seq), rewound_by=None)


def check_target_exists(tx: Transaction, session_id: str, draft: Draft, last: int) -> None:
    """Refuse a note about an entry that is not a message."""
    target = draft.sealed.target
    if target is not None and not _is_message(tx, session_id, target):
        raise no_message(target, last)


def no_message(seq: int, last: int) -> MessageNotFound:
    """The error for a note about an entry that is not a message."""
    return MessageNotFound(
        f"Entry {seq} is not a message of the log, which ends at {last}.", candidates=(1, last)
    )


def set_title(tx: Transaction, session_id: str, note: str | None, value: Any) -> None:
    """Cache the newest title or metadata for the list of sessions."""
    if note == TITLE:
        tx.run(_SET_TITLE, of=session_id, new_title=value)
    elif note == METADATA:
        text = None if value is None else encode(value, METADATA)
        tx.run(_SET_METADATA, of=session_id, new_metadata=text)
        set_facts(tx, session_id, value)


def refresh_title(tx: Transaction, session_id: str, seq: int) -> None:
    """Compute the cached title and metadata anew, from the notes up to `seq`."""
    for note, value in _newest_values(tx, session_id, seq).items():
        set_title(tx, session_id, note, value)


def title_is_fresh(tx: Transaction, session_id: str, seq: int) -> bool:
    """Whether the cached title and metadata, and the index of the latter, match the notes."""
    newest = _newest_values(tx, session_id, seq)
    metadata = None if newest[METADATA] is None else encode(newest[METADATA], METADATA)
    # As texts: both are encoded from the same note.
    is_shown = tx.row(_SHOWN, session_id=session_id) == (newest[TITLE], metadata)
    return is_shown and are_fresh(tx, session_id, newest[METADATA])


def _newest_values(tx: Transaction, session_id: str, seq: int) -> dict[str, Any]:
    found = {note: newest_note(tx, session_id, note, None, seq) for note in (TITLE, METADATA)}
    return {kind: note and note.content.get(kind) for kind, note in found.items()}


def read_notes(tx: Transaction, session_id: str, note: str, seq: int) -> list[Note]:
    """All notes of a kind up to a seq, oldest first."""
    return _notes(tx.rows(_NOTES, session_id=session_id, note=note, seq=seq))


def notes_on(tx: Transaction, session_id: str, note: str, target: int, seq: int) -> list[Note]:
    """All notes of a kind on one entry up to a seq, oldest first."""
    return _notes(tx.rows(_NOTES_ON, session_id=session_id, note=note, target=target, seq=seq))


def _notes(rows: Sequence[SqlRow]) -> list[Note]:
    # By seq: the statement has the order of the index, which is by target first.
    return [to_note(*row) for row in sorted(rows)]


def to_note(seq: int, note: str, target: int | None, content: str, recorded_at: int) -> Note:
    """A stored note, from its columns."""
    try:
        decoded = decode(content)
    except HistoryCorrupt:
        decoded = None
    name, type_ = _SAYS.get(note, ("", object))
    if not isinstance(decoded, dict) or not isinstance(decoded.get(name), type_):
        raise HistoryCorrupt(
            f"Entry {seq} does not have the content of a note of its kind.", seq=seq
        )
    return Note(seq, note, target, decoded, recorded_at)


def newest_note(
    tx: Transaction, session_id: str, note: str, target: int | None, seq: int
) -> Note | None:
    """The note of a kind and target that is current at a seq."""
    row = _newest_row(tx, session_id, note, target, seq)
    return None if row is None else _notes([row[:-1]])[0]


def _newest_row(
    tx: Transaction, session_id: str, note: str, target: int | None, seq: int
) -> SqlRow | None:
    of = {"session_id": session_id, "note": note, "seq": seq}
    if target is None:
        return tx.row(_NEWEST, **of)
    return tx.row(_NEWEST_OF_TARGET, **of, target=target)


def pinned(tx: Transaction, session_id: str, seq: int) -> set[int]:
    """The messages that are pinned at a seq."""
    statement, params = pins_query(session_id, seq)
    return to_pins(tx.rows(statement, **params))


def pins_query(session_id: str, seq: int) -> Query:
    """The query for the pins at a seq."""
    return _NOTES, {"session_id": session_id, "note": PIN, "seq": seq}


def notes_query(session_id: str, note: str) -> Query:
    """The query for all notes of a kind."""
    return _ALL_NOTES, {"session_id": session_id, "note": note}


def to_redacted(rows: Sequence[SqlRow], *, after: int) -> set[int]:
    """The messages redacted after a seq, from the rows of that query."""
    return {note.target for note in _notes(rows) if note.target is not None and note.seq > after}


def to_pins(rows: Sequence[SqlRow]) -> set[int]:
    """The pinned messages, from the rows of that query."""
    # Oldest first, so that the newest note of each target stays.
    newest_of = {note.target: note for note in _notes(rows)}
    return {seq for seq, note in newest_of.items() if seq is not None and note.content["pinned"]}


def _is_message(tx: Transaction, session_id: str, seq: int) -> bool:
    row = tx.row(_MESSAGE, session_id=session_id, target=seq)
    return row is not None and row[0] in ("message", "summary", "marker", "companion")


def _known(tx: Transaction, session_id: str, head: SessionHead, draft: Draft) -> Receipt | None:
    """The receipt for a note that would change nothing."""
    kind, new = draft.sealed.note, draft.content
    if kind not in _STATES or new is None:
        return None
    counting = _newest_row(tx, session_id, kind, draft.sealed.target, head.last_seq)
    if counting is None:
        unpins = kind == PIN and not decode(new)["pinned"]
        place = (head.last_seq, head.last_hash) if unpins else None
    else:
        seq, _, _, content, _, hash_ = counting
        place = (seq, hash_) if content == new else None
    return place and Receipt(session_id, place[0], place[1].hex(), head.head_seq, new=False)

"""Notes: pins, title, metadata and other facts that are logged beside the conversation.

A note is chained like any entry, but no model sees it, no rewind takes it back, and writing one
conflicts with no other writer. Among notes of the same kind and target, the newest counts.

The index of metadata: the top-level strings of each session's newest metadata.

A cache: it is a function of the newest metadata note, and is written in the note's transaction.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import (
    bindparam,
    delete,
    insert,
    select,
    update,
)

from roocontext.errors import InvalidOption, MessageNotFound
from roocontext.log.draft import Draft, Salts, note_draft
from roocontext.log.encoding import check_id, decode, encode, plain
from roocontext.store.engine.check_arguments import check_mapping, check_maybe, check_whole
from roocontext.store.engine.schema import IN_LOG, entries, facts, sessions
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead, lock
from roocontext.store.reading.notes import METADATA, OWN, PIN, TITLE, _newest_row, newest_note
from roocontext.store.reading.points_in_time import head_at
from roocontext.store.writing.append import Receipt, Stored, first_receipt, stored_by, write
from roocontext.store.writing.items import AnyNote, NewNote, Pin, SetMetadata, SetTitle, Unpin

LONGEST_INDEXED = 256
"""Longer texts are indexed by their digest: PostgreSQL refuses index rows of about 2,700 bytes."""

_READ = select(facts.c.key, facts.c.value).where(facts.c.session_id == bindparam("session_id"))
_DROP = delete(facts).where(facts.c.session_id == bindparam("session_id"))
_ADD = insert(facts).values({column.name: bindparam(column.name) for column in facts.columns})


def index_key(text: str) -> str:
    """Encode a key or a value for the index.

    JSON, because a text of PostgreSQL holds neither NUL nor lone surrogates. A digest has no
    quotation marks, so it is never equal to a text.
    """
    encoded = encode(text)
    return encoded if len(encoded) <= LONGEST_INDEXED else sha256(encoded.encode()).hexdigest()


def set_facts(tx: Transaction, session_id: str, metadata: Mapping[str, Any] | None) -> None:
    """Replace the index rows of a session's metadata."""
    tx.change(_DROP, session_id=session_id)
    rows = _facts_of(metadata).items()
    tx.many(_ADD, [{"session_id": session_id, "key": key, "value": value} for key, value in rows])


def are_fresh(tx: Transaction, session_id: str, metadata: Mapping[str, Any] | None) -> bool:
    """Whether a session's index rows match its metadata."""
    return dict(tx.rows(_READ, session_id=session_id)) == _facts_of(metadata)


def _facts_of(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    strings = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return {index_key(key): index_key(value) for key, value in strings.items()}


_STATES = frozenset({PIN, TITLE, METADATA})
"""The kinds that hold a state: writing the same state again writes nothing."""


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
        case SetTitle(title):
            check_id("title", title)
            kind, content, shown = TITLE, {"title": title}, title
        case SetMetadata(metadata):
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
        tx.change(_SET_TITLE, of=session_id, new_title=value)
    elif note == METADATA:
        text = None if value is None else encode(value, METADATA)
        tx.change(_SET_METADATA, of=session_id, new_metadata=text)
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

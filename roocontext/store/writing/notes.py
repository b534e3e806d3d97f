"""Notes: pins, title, metadata and other facts that are logged with the conversation.

A note is chained like any entry, but no model sees it, no rewind takes it back, and writing one
conflicts with no other writer. Among notes of the same kind and target, the newest counts.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import bindparam

from roocontext.errors import InvalidOption, MessageNotFound
from roocontext.log.draft import Draft, Sources, note_draft
from roocontext.log.encoding import check_id, decode, plain
from roocontext.log.entries import MESSAGE_KINDS
from roocontext.store.engine.check_arguments import check_mapping, check_maybe, check_whole
from roocontext.store.engine.schema import IN_LOG, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.coverings import Hidden
from roocontext.store.reading.head import SessionHead, lock
from roocontext.store.reading.notes import (
    EXTRACT,
    METADATA,
    OWN,
    PIN,
    REDACTION,
    TITLE,
    newest_note,
    newest_row,
    notes_query,
    to_redacted,
)
from roocontext.store.reading.points_in_time import head_at
from roocontext.store.writing.append import Receipt, Stored, first_receipt, stored_by, write
from roocontext.store.writing.items import AnyNote, NewNote, Pin, SetMetadata, SetTitle, Unpin
from roocontext.store.writing.shown import show

_STATES = frozenset({PIN, TITLE, METADATA})
"""The kinds that hold a state: writing the same state again writes nothing."""
_KIND = log_rows("kind").where(entries.c.seq == bindparam("target"), IN_LOG)


class Drafted(NamedTuple):
    """An entry to be written, and what the list of sessions shows of a title or metadata."""

    draft: Draft
    shown: Any = None


def drafted(item: AnyNote, sources: Sources) -> Drafted:
    """Draft a note, or raise the error that says why it cannot be stored."""
    target: int | None = None
    ts, cached = None, None
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
            kind, content, cached = TITLE, {"title": title}, title
        case SetMetadata(metadata):
            check_mapping("metadata", metadata)
            cached = plain(dict(metadata))
            kind, content = METADATA, {METADATA: cached}
        case Pin(seq) | Unpin(seq):
            check_whole("seq", seq, least=1)
            kind, content, target = PIN, {"pinned": isinstance(item, Pin)}, seq
    draft = note_draft(kind, content, sources, target=target, ts=ts, client_id=item.client_id)
    return Drafted(draft, cached)


def write_note(log: SessionLog, new: Drafted) -> Receipt:
    """Write a note. If its client id was stored before, return the first receipt.

    A pin, title or metadata that changes nothing is not written. Its receipt is then that of the
    note that already counts or, if there is none, that of the last entry.
    """
    draft, cached = new
    head = lock(log)
    # A repeated request gets its receipt even if the same state was written again since.
    stored = stored_by(log, [draft.sealed.client_id])
    if first := first_note(log, draft, stored):
        return first
    check_target_exists(log, draft, head.last_seq)
    if current := _current_state(log, head, draft):
        return current
    (receipt,) = write(log, head, [draft])
    show(log, draft.sealed.note, cached)
    return receipt


def update_metadata(
    log: SessionLog,
    changes: Mapping[str, Any],
    removed: Collection[str],
    sources: Sources,
    *,
    client_id: str | None,
) -> Receipt:
    """Write the newest metadata with some keys changed."""
    head = lock(log)
    # A repeated request is compared with what it wrote, whatever was changed since.
    stored = stored_by(log, [client_id]).get(client_id or "")
    newest = newest_row(log, METADATA, None, head.last_seq)
    if stored is not None:
        content = stored.content if stored.note == METADATA else None
    else:
        content = None if newest is None else newest[3]
    old = {} if content is None else decode(content)[METADATA]
    metadata = {key: value for key, value in old.items() if key not in removed} | dict(changes)
    return write_note(log, drafted(SetMetadata(metadata, client_id), sources))


def first_note(log: SessionLog, draft: Draft, stored_ids: Mapping[str, Stored]) -> Receipt | None:
    """The receipt of the note that is stored with the draft's client id, if any is."""
    first = first_receipt(log, draft, stored_ids)
    if first is None:
        return None
    # A note moves no head, and no rewind takes it back, whatever happened to the rows around it.
    return replace(first, head_seq=head_at(log, first.seq), rewound_by=None)


def check_target_exists(log: SessionLog, draft: Draft, last: int) -> None:
    """Refuse a note about an entry that is not a message."""
    target = draft.sealed.target
    row = target and log.row(_KIND, target=target)
    if target is not None and not (row and row[0] in MESSAGE_KINDS):
        raise MessageNotFound(
            f"Entry {target} is not a message of the log, which ends at {last}.",
            candidates=(1, last),
        )


def _current_state(log: SessionLog, head: SessionHead, draft: Draft) -> Receipt | None:
    """The receipt for a note that would change nothing."""
    kind, new = draft.sealed.note, draft.content
    if kind not in _STATES or new is None:
        return None
    newest = newest_row(log, kind, draft.sealed.target, head.last_seq)
    if newest is None:
        unpins = kind == PIN and not decode(new)["pinned"]
        place = (head.last_seq, head.last_hash) if unpins else None
    else:
        seq, _, _, content, _, hash_ = newest
        place = (seq, hash_) if content == new else None
    return place and Receipt(log.session_id, place[0], place[1].hex(), head.head_seq, new=False)


def keep_extract(log: SessionLog, hidden: Hidden, text: str, sources: Sources) -> bool:
    """Write the extract of what a covering hides, unless there is one already; whether it was.

    Nothing is written if anything was redacted since the messages were read: the extract may quote
    it.
    """
    head = lock(log)
    if newest_note(log, EXTRACT, hidden.source, head.last_seq) is not None:
        return False
    statement, of = notes_query(REDACTION)
    if to_redacted(log.rows(statement, **of), after=hidden.last_seq):
        return False
    draft = note_draft(EXTRACT, {"text": text}, sources, target=hidden.source)
    write(log, head, [draft])
    return True

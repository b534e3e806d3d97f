"""Appending messages: take the next seq, chain the hash, keep the running totals.

Everything that is ever written to a log goes through `write`, except a single message on
PostgreSQL: there a function of the schema does the same in one statement (0004).

A request may be repeated: entries that were stored with the same client ids are not written again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import insert, literal_column

from roocontext.errors import DuplicateMessage, HistoryCorrupt, MessageNotFound, StoreUnavailable
from roocontext.log.chain import Sealed, link
from roocontext.log.draft import Draft
from roocontext.log.values import Value
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.driver_errors import UniqueViolation
from roocontext.store.engine.engines import WriteSettings
from roocontext.store.engine.observing import note_calls, note_lock_wait
from roocontext.store.engine.schema import LAST, entries, log_rows, span_around, spans
from roocontext.store.engine.statements import OneOf
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import SessionHead, check_version, lock, move_head, read_head
from roocontext.store.writing.shown import drafted_prompt, show_prompt


class Receipt(msgspec.Struct, Value, frozen=True):
    """The place of an entry that is durable now, and the hash that proves it.

    `head_seq` is what `expected_seq` is compared with next. A repeated append gets its first
    receipt again: `new` is False then, and `rewound_by` names the rewind that took it back, if any.
    """

    session_id: str
    seq: int
    hash: str
    head_seq: int
    new: bool = True
    rewound_by: int | None = None


AReceipt = TypeVar("AReceipt", bound=Receipt)

_APPEND: Final = "roocontext_append_v1"
_NO_FUNCTION: Final = "42883"


def extended(kind: type[AReceipt], receipt: Receipt, **facts: Any) -> AReceipt:
    """A receipt that says more, made of a plain one."""
    own = {name: getattr(receipt, name) for name in Receipt.__struct_fields__}
    return kind(**{**own, **facts})


def append_message(
    database: SessionDatabase, draft: Draft, expected_seq: int | None = None
) -> Receipt:
    """Append one message; repeated with the same client id, it gives the first receipt."""
    settings = database.server
    if settings is not None and not database.is_checked:
        try:
            return database.single(_append_by_function, settings, draft, expected_seq)
        except StoreUnavailable as error:  # some servers refuse functions
            if error.facts.get("code") != _NO_FUNCTION:
                raise
    return database.write(append_many, [draft], expected_seq)[0]


def _append_by_function(
    log: SessionLog, settings: WriteSettings, draft: Draft, expected_seq: int | None
) -> Receipt:
    sealed = draft.sealed
    values = (
        *(*settings, log.tx.owner),
        *(log.session_id, expected_seq, draft.refers_to, drafted_prompt(draft), draft.digest),
        *(sealed.format, sealed.role, sealed.ts, sealed.recorded_at, sealed.message_id),
        *(sealed.client_id, sealed.model, sealed.usage, sealed.asked_at, sealed.answers_seq),
        *(sealed.answers_block, sealed.size, draft.salt, draft.content_digest, draft.tools),
        *(draft.extra, draft.content),
    )
    # While a cluster moves the rows of the session, a call may find nothing and there is no reason:
    # it is sent once more.
    for is_last in (False, True):
        row, is_taken = None, False
        try:
            row = log.tx.call(_APPEND, values)
        except UniqueViolation:  # a used client id aborts the statement, the whole transaction
            is_taken = True
        if row is not None and row[0] is not None:
            note_lock_wait(row[2])
            note_calls((draft,))
            return Receipt(log.session_id, row[0], row[1].hex(), row[0])
        # Nothing was written: the request was repeated, there is no such session, another writer
        # moved the head, or the message refers to an entry that does not exist.
        _, (first,) = _first_receipts(log, [draft])
        if first is not None:
            return first
        # Read after the statement: the head reported may be newer than the one that it failed on.
        head = read_head(log)
        check_version(expected_seq, head)
        if draft.refers_to > head.last_seq:
            raise _not_earlier(draft, head.last_seq + 1)
        if is_last or is_taken:
            break
    raise _beyond(log.session_id, head.last_seq)


def append_many(
    log: SessionLog,
    drafts: Sequence[Draft],
    expected_seq: int | None = None,
    *,
    skip_stored: bool = False,
) -> list[Receipt]:
    """Append messages, all or none; when all were stored before, give their first receipts.

    With `skip_stored` some may have been stored before: only the others are written.
    """
    head = lock(log)
    # Before the version: the head has moved since a request that is now repeated.
    ids, firsts = _first_receipts(log, drafts)
    if repeated := repeated_request(ids, firsts, skip_stored=skip_stored):
        head_seq = max(receipt.head_seq for receipt in repeated)
        return [replace(receipt, head_seq=head_seq) for receipt in repeated]
    check_version(expected_seq, head)
    new = [draft for draft, first in zip(drafts, firsts, strict=True) if first is None]
    return merged_receipts(firsts, write(log, head, new))


def write(log: SessionLog, head: SessionHead, drafts: Sequence[Draft]) -> list[Receipt]:
    """Chain the drafts to a locked session and store them."""
    if not drafts:
        return []
    rows: list[tuple[Any, ...]] = []
    seq, hash_, head_seq, messages, size, _, created_at, times, has_prompt, *_ = head
    for draft in drafts:
        seq += 1
        # A message may refer to an earlier one of the same call, so this is checked row by row.
        if draft.refers_to >= seq:
            raise _not_earlier(draft, seq)
        sealed = draft.sealed
        hash_ = link(hash_, draft.digest)
        head_seq = head_seq if draft.is_note else seq
        if draft.is_message:
            messages, size = messages + 1, size + sealed.size
        times = times.after(sealed.kind, sealed.note, sealed.ts, sealed.recorded_at)
        place = (log.session_id, seq, messages, size, times.latest_happened, hash_)
        own = (draft.salt, draft.content_digest, draft.tools, draft.extra, draft.content)
        rows.append(_in_order((*place, *own, *sealed)))
    log.tx.insert(
        _ADD,
        *rows,
        # The head is locked, so the next seq can only be taken by a row that no head knows.
        taken=lambda: _beyond(log.session_id, head.last_seq),
    )
    updated_at = drafts[-1].sealed.recorded_at
    note_calls(drafts)
    moved = SessionHead(seq, hash_, head_seq, messages, size, updated_at, created_at, times)
    move_head(log, head, moved)
    if not has_prompt:
        show_prompt(log, drafts)
    return [Receipt(log.session_id, row[_SEQ], row[_HASH].hex(), head_seq) for row in rows]


_ADD = insert(entries)
_COLUMNS = entries.columns.keys()
_SEQ, _HASH = _COLUMNS.index("seq"), _COLUMNS.index("hash")
_VALUES = (
    *("session_id", "seq", "messages_total", "bytes_total", "latest_happened", "hash"),
    *("salt", "content_digest", "tools", "extra", "content"),
    *Sealed._fields,
)
_in_order = itemgetter(*map(_VALUES.index, _COLUMNS))
"""The values of an entry, which `write` makes in another order, as a row of the table."""


def _beyond(session_id: str, last_seq: int) -> HistoryCorrupt:
    return HistoryCorrupt(
        f"Session {session_id!r} ends at entry {last_seq}, but holds another one after it.",
        seq=last_seq + 1,
    )


def _not_earlier(draft: Draft, seq: int) -> MessageNotFound:
    return MessageNotFound(
        f"The message would be entry {seq}, and refers to entry {draft.refers_to}: `asked_at` and"
        " `answers` name earlier entries.",
        candidates=(0, seq - 1),
    )


# Repeated requests


class Stored(NamedTuple):
    """A stored entry, for the comparison with a request that gives its client id again."""

    seq: int
    hash: bytes
    kind: str
    role: str | None
    format: str | None
    note: str | None
    target: int | None
    compaction_id: str | None
    salt: bytes | None
    details: str | None
    content: str | None

    def answers(self, draft: Draft) -> bool:
        """True if the draft would store the same."""
        new = draft.sealed
        same = (self.note, self.target) == (new.note, new.target)
        return same and self.holds(new.role, new.format, draft.content)

    def holds(self, role: str | None, format_: str | None, text: str | None) -> bool:
        """True if it has this content, or was redacted and has none left to compare."""
        # A redaction removes the salt and leaves a skeleton: the request that wrote it may be
        # repeated.
        redacted = self.salt is None and self.content is not None
        return redacted or (self.role, self.format, self.content) == (role, format_, text)


_REWOUND_BY = span_around(spans.c.rewound_by)


_BY_CLIENT_IDS = log_rows("client_id", *Stored._fields).where(
    # Without a test for NULL, which this implies: SQLite would search the range of all ids by it.
    OneOf(entries.c.client_id, "ids"),
    # Not by seq: SQLite would walk the whole session instead.
    (entries.c.seq + literal_column("0")).between(literal_column("1"), LAST),
)


def stored_by(log: SessionLog, client_ids: Sequence[str | None]) -> dict[str, Stored]:
    """The entries that were stored with these client ids, by client id."""
    ids = [client_id for client_id in client_ids if client_id is not None]
    if not ids:
        return {}
    rows = log.rows(_BY_CLIENT_IDS, ids=log.tx.many_values(ids))
    return {client_id: Stored(*row) for client_id, *row in rows}


def first_receipt(
    log: SessionLog, draft: Draft, stored_ids: Mapping[str, Stored]
) -> Receipt | None:
    """The receipt of the entry that is stored with the draft's client id, if any is."""
    client_id = draft.sealed.client_id
    stored = None if client_id is None else stored_ids.get(client_id)
    if client_id is None or stored is None:
        return None
    if not stored.answers(draft):
        raise taken(client_id, stored)
    return repeated_receipt(log, stored)


def repeated_receipt(log: SessionLog, stored: Stored) -> Receipt:
    """The receipt of a stored message or control row."""
    rewound = log.row(_REWOUND_BY, seq=stored.seq)
    place = (log.session_id, stored.seq, stored.hash.hex(), stored.seq)
    return Receipt(*place, new=False, rewound_by=rewound[0] if rewound else None)


def repeated_request(
    ids: Sequence[str | None], firsts: Sequence[AReceipt | None], *, skip_stored: bool
) -> list[AReceipt] | None:
    """The first receipts of a request that was stored before as a whole; None if it is new.

    With `skip_stored` a part of it may have been stored before.
    """
    stored = [receipt for receipt in firsts if receipt is not None]
    if len(stored) == len(firsts):
        return stored or None
    # The missing entries may belong between the others, so none is written after them (0024).
    if stored and not skip_stored:
        raise DuplicateMessage(
            f"{len(stored)} of {len(firsts)} items were stored before: nothing was written.",
            client_id=ids[firsts.index(stored[0])],
            seq=stored[0].seq,
        )
    return None


def merged_receipts(firsts: Sequence[AReceipt | None], new: Iterable[AReceipt]) -> list[AReceipt]:
    """The first receipts of the items stored before and the receipts of new ones, in order."""
    rest = iter(new)
    return [next(rest) if first is None else first for first in firsts]


def taken(client_id: str, stored: Stored) -> DuplicateMessage:
    """The error for a client id that another request was stored with."""
    return DuplicateMessage(
        f"Client id {client_id!r} is taken by entry {stored.seq}, which has other content.",
        client_id=client_id,
        seq=stored.seq,
    )


def refuse_twice(client_ids: Sequence[str | None]) -> None:
    """Refuse a request in which two entries have the same client id."""
    ids = [client_id for client_id in client_ids if client_id is not None]
    if len(set(ids)) < len(ids):
        twice = next(client_id for client_id, times in Counter(ids).items() if times > 1)
        raise DuplicateMessage(
            f"Two entries of one request have the client id {twice!r}.", client_id=twice
        )


def refuse_taken(log: SessionLog, drafts: Sequence[Draft]) -> None:
    """Refuse drafts that are new although their client id was given before."""
    ids = [draft.sealed.client_id for draft in drafts]
    refuse_twice(ids)
    stored = stored_by(log, ids)
    for client_id in ids:
        if client_id in stored:
            seq = stored[client_id].seq
            raise DuplicateMessage(
                f"Client id {client_id!r} is taken by entry {seq}.", client_id=client_id, seq=seq
            )


def _first_receipts(
    log: SessionLog, drafts: Sequence[Draft]
) -> tuple[list[str | None], list[Receipt | None]]:
    """The client ids of drafts, and the first receipts of those that were stored before."""
    ids = [draft.sealed.client_id for draft in drafts]
    refuse_twice(ids)
    stored = stored_by(log, ids)
    return ids, [first_receipt(log, draft, stored) for draft in drafts]

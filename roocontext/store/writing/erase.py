"""The only ways to erase content: redact one message or purge one session. Both are audited.

Who quotes a message: the answers to recall tools, and the summaries that were made of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, and_, bindparam, delete, false, null, or_, select, update

from roocontext.errors import HistoryCorrupt, MessageNotFound
from roocontext.log.chain import skeleton_digest
from roocontext.log.draft import Draft, Salts, note_draft
from roocontext.log.encoding import MAX_INTEGER, decode, encode
from roocontext.log.entries import QUOTED, Kind, quotes_of
from roocontext.log.readings import reader
from roocontext.log.spans import standing_ranges, within
from roocontext.log.values import Value
from roocontext.store.engine.schema import ERASURES, IN_LOG, entries, sessions
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.copies import COPIES, FAMILY, locked_holders
from roocontext.store.reading.head import SessionHead, lock, read_head
from roocontext.store.reading.messages import read_controls
from roocontext.store.reading.notes import FRAME, METADATA, REDACTION
from roocontext.store.reading.pages import Page, cut_page, read_cursor, rows_for, write_cursor
from roocontext.store.writing.append import refresh_prompt, write
from roocontext.store.writing.notes import refresh_title

Place = tuple[str, int]
"""A session's id and a seq."""

_PARENT = select(sessions.c.parent).where(sessions.c.session_id == bindparam("session_id"))
_QUOTING = (
    select(entries.c.seq, entries.c.extra)
    .where(
        entries.c.session_id == bindparam("session_id"),
        IN_LOG,
        entries.c.extra.is_not(None),
        entries.c.extra.like(bindparam("mark")),
    )
    .order_by(entries.c.seq)
)
_MARK = f'%"{QUOTED}"%'


def quoting_rows(tx: Transaction, holders: Collection[str], seq: int) -> list[Place]:
    """The rows that quote a message which these sessions hold as entry `seq`."""
    return [
        (reader, row)
        for reader in sorted(_readers(tx, holders))
        for row, extra in tx.rows(_QUOTING, session_id=reader, mark=_MARK)
        if any(
            quote.lo <= seq <= quote.hi and (quote.session_id or reader) in holders
            for quote in quotes_of(decode(extra))
        )
    ]


def summaries_of(tx: Transaction, rows: Sequence[Place]) -> list[Place]:
    """The summaries, live or not, that may quote one of the rows: it was live when they were made.

    A summary of a summary may quote what the first one does.
    """
    return [
        (holder, summary)
        for holder in dict.fromkeys(holder for holder, _ in rows)
        for summary in _summaries(tx, holder, {seq for name, seq in rows if name == holder})
    ]


def _readers(tx: Transaction, holders: Collection[str]) -> set[str]:
    """The sessions whose recall reads these: themselves, their ancestors, and forks of all."""
    found: set[str] = set()
    level = set(holders)
    while level:
        found |= level
        parents = {row[0] for row in tx.each(_PARENT, _named(level)) if row[0] is not None}
        forks = {row[0] for row in tx.each(FAMILY, _named(parents))}
        level = (parents | forks) - found
    return found


def _named(names: Collection[str]) -> list[dict[str, str]]:
    return [{"session_id": name} for name in sorted(names)]


def _summaries(tx: Transaction, holder: str, quoted: set[int]) -> Iterator[int]:
    controls = read_controls(tx, holder, read_head(tx, holder).last_seq)
    for control in controls:
        if control.kind is not Kind.SUMMARY:
            continue
        hidden = [seq for seq in quoted if within(control.hides, seq)]
        if hidden:
            standing = standing_ranges(controls, control.seq)
            if any(within(standing, seq) for seq in hidden):
                quoted.add(control.seq)
                yield control.seq


@dataclass(frozen=True, slots=True)
class Redacted(Value):
    """What a redaction did: the message's copies, and what may still repeat its words.

    `quotes` are the answers to recall tools that quote it, and `summaries` those that were made of
    it or of such an answer. All are pairs of session id and seq. `erased` is True if the bytes are
    gone from the file's free space too. Another reader can prevent that, and not every engine
    promises it.
    """

    session_id: str
    seq: int
    copies: tuple[tuple[str, int], ...]
    quotes: tuple[tuple[str, int], ...]
    summaries: tuple[tuple[str, int], ...]
    changed: bool
    dry_run: bool = False
    erased: bool = False


@dataclass(frozen=True, slots=True)
class Purged(Value):
    """The receipt of a purge, kept in place of the session.

    `copies` are the sessions that still hold its entries: its forks, and the session that it was
    forked from. The call returns them, but the receipt does not keep them.
    """

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: int
    copies: tuple[str, ...] = ()
    dry_run: bool = False
    erased: bool = False


class Gone(NamedTuple):
    """An entry that is redacted: what stays of its content, and whether it is a note."""

    seq: int
    skeleton: str
    is_note: bool

    @property
    def note(self) -> dict[str, str]:
        """What the redaction says: it proves that the skeleton was not exchanged."""
        return {"digest": skeleton_digest(self.seq, self.skeleton)}

    def redaction(self, *, now: int, salts: Salts) -> Draft:
        """The note of the redaction."""
        return note_draft(REDACTION, self.note, now=now, salts=salts, target=self.seq)


_read_receipt = msgspec.json.Decoder(Purged).decode
_OF_THE_CALL = ("copies", "dry_run", "erased")
"""The fields that the call returns but the receipt does not keep."""

_SKELETONS: Mapping[str, Any] = {METADATA: {METADATA: {}}, FRAME: {"tools": []}}
"""The notes that can be redacted, with the empty content that readers of the kind expect."""
_ENTRY = select(
    *(entries.c.hash, entries.c.role, entries.c.note),
    *(entries.c.format, entries.c.content, entries.c.salt),
).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq == bindparam("seq"),
    IN_LOG,
)
_REPLACE = (
    update(entries)
    .where(entries.c.session_id == bindparam("of"), entries.c.seq == bindparam("at"))
    .values(content=bindparam("skeleton"), salt=null(), extra=null())
)
_FORGET = [
    delete(erasure.table).where(
        erasure.table.c.session_id == bindparam("of"), erasure.table.c.seq == bindparam("at")
    )
    for erasure in ERASURES
    if erasure.redaction and erasure.table is not entries
]
_QUOTES = ("title", "metadata", "first_prompt")
"""The columns of the session's row that quote its log."""
_TOMBSTONE = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(
        purged_at=bindparam("at"),
        receipt=bindparam("kept"),
        unindexed=false(),
        **dict.fromkeys(_QUOTES, null()),
    )
)
_before = bindparam("before", type_=BigInteger)
_RECEIPTS = (
    select(sessions.c.receipt)
    .where(
        sessions.c.purged_at.is_not(None),
        or_(
            sessions.c.purged_at < _before,
            and_(sessions.c.purged_at == _before, sessions.c.session_id > bindparam("session_id")),
        ),
    )
    .order_by(sessions.c.purged_at.desc(), sessions.c.session_id)
    .limit(bindparam("page"))
)
_DELETE = [
    delete(erasure.table).where(erasure.table.c.session_id == bindparam("of"))
    for erasure in ERASURES
]


def redact(
    tx: Transaction, session_id: str, seq: int, *, now: int, salts: Salts, dry_run: bool
) -> Redacted:
    """Replace a message's or metadata's content by its skeleton, wherever a copy is held."""
    # Not locked yet: all copies are locked in the order of their ids, so that two redactions do not
    # wait for each other.
    head = read_head(tx, session_id)
    row = tx.row(_ENTRY, session_id=session_id, seq=seq)
    if row is None or (row[1] is None and row[2] not in _SKELETONS):
        raise MessageNotFound(
            f"Entry {seq} is not a message of the log, which ends at {head.last_seq}.",
            candidates=(1, head.last_seq),
        )
    hash_, role, note_kind, format_, content, _ = row
    copies = COPIES, {"session_id": session_id, "seq": seq, "hash": hash_}
    heads = locked_holders(tx, session_id, copies, read_head if dry_run else lock)
    # Read again under the lock.
    again = tx.row(_ENTRY, session_id=session_id, seq=seq)
    changed = again is not None and again[-1] is not None  # unless another redaction was faster
    if changed and not dry_run:
        left = _SKELETONS[note_kind] if role is None else reader(format_).skeleton(decode(content))
        gone = [Gone(seq, encode(left), is_note=role is None)]
        for copy, copy_head in heads.items():
            erase_rows(tx, copy, copy_head, gone, now=now, salts=salts)
    rows = [(copy, seq) for copy in heads]
    quotes = [] if role is None else quoting_rows(tx, heads, seq)
    return Redacted(
        session_id,
        seq,
        copies=tuple(rows),
        quotes=tuple(quotes),
        summaries=() if role is None else tuple(summaries_of(tx, [*rows, *quotes])),
        changed=changed,
        dry_run=dry_run,
    )


def erase_rows(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    gone: Sequence[Gone],
    *,
    now: int,
    salts: Salts,
) -> None:
    """Redact entries of a locked session: write the redactions, and put the skeletons in place."""
    write(tx, session_id, head, [one.redaction(now=now, salts=salts) for one in gone])
    for one in gone:
        put_skeleton(tx, session_id, one.seq, one.skeleton)
    if any(one.is_note for one in gone):
        refresh_title(tx, session_id, head.last_seq)
    if head.has_prompt and not all(one.is_note for one in gone):
        refresh_prompt(tx, session_id, head.last_seq)


def put_skeleton(tx: Transaction, session_id: str, seq: int, skeleton: str) -> None:
    """Replace the content of an entry, and forget what reveals something of it."""
    tx.run(_REPLACE, of=session_id, at=seq, skeleton=skeleton)
    for forget in _FORGET:
        tx.run(forget, of=session_id, at=seq)


def purge(tx: Transaction, session_id: str, *, now: int, dry_run: bool) -> Purged:
    """Delete everything recorded in a session, and leave the receipt."""
    head = (read_head if dry_run else lock)(tx, session_id)
    receipt = Purged(
        session_id,
        head.last_seq,
        head.messages,
        head.bytes,
        head.last_hash.hex(),
        now,
        copies=tuple(row[0] for row in tx.rows(FAMILY, session_id=session_id)),
        dry_run=dry_run,
    )
    if not dry_run:
        kept = {k: v for k, v in asdict(receipt).items() if k not in _OF_THE_CALL}
        tx.run(_TOMBSTONE, of=session_id, at=now, kept=encode(kept))
        # The row of the session stays, with the receipt: its id is never given to another history.
        for statement in _DELETE:
            tx.run(statement, of=session_id)
    return receipt


def receipts(tx: Transaction, limit: int, after: str | None) -> Page[Purged]:
    """A page of the receipts of purged sessions, the newest first."""
    before, last = (MAX_INTEGER, "") if after is None else read_cursor("purged", after, int, str)
    rows = tx.rows(_RECEIPTS, before=before, session_id=last, page=rows_for(limit))
    try:
        found = [_read_receipt(row[0]) for row in rows]
    except (msgspec.DecodeError, UnicodeError, TypeError):  # TypeError: the column holds no text
        raise HistoryCorrupt("A session has a receipt that no purge has written.") from None
    return cut_page(found, limit, cursor_of_receipt)


def cursor_of_receipt(receipt: Purged) -> str:
    """The cursor of the page of receipts that begins after one."""
    return write_cursor("purged", receipt.purged_at, receipt.session_id)

"""The only ways to erase content: redact one message or purge one session. Both are audited.

A redaction reaches all copies of an entry that the store holds, and lists the entries that may
quote it: answers to recall tools, and summaries. A restore adds copies later; `redact_copies` then
redacts them too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, and_, bindparam, delete, false, null, or_, select, text, update

from roocontext.errors import HistoryCorrupt, InvalidOption, MessageNotFound, SessionArchived
from roocontext.log.chain import skeleton_digest
from roocontext.log.draft import Sources, control_of, note_draft
from roocontext.log.encoding import MAX_INTEGER, decode, encode
from roocontext.log.entries import QUOTED, BlockRef, Kind, quotes_of
from roocontext.log.readings import reader
from roocontext.log.spans import standing_ranges, within
from roocontext.log.values import Value
from roocontext.store.engine.schema import (
    AT_SEQ,
    ERASURES,
    IN_LOG,
    entries,
    log_rows,
    of_session,
    sessions,
)
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import SessionLog, Transaction
from roocontext.store.reading.copies import (
    COPIES,
    ERASED,
    FAMILY,
    WHOLE_COPIES,
    WITH_FIRST,
    locked_holders,
)
from roocontext.store.reading.head import SessionHead, check_version, lock, read_head
from roocontext.store.reading.messages import read_controls
from roocontext.store.reading.notes import EXTRACT, FRAME, METADATA, REDACTION, notes_on
from roocontext.store.reading.pages import Page, cut_page, read_cursor, rows_for, write_cursor
from roocontext.store.writing.append import write
from roocontext.store.writing.archived import (
    Place,
    first_hash,
    head_or_tombstone,
    redact_later,
    redact_relatives,
    relatives,
)
from roocontext.store.writing.shown import refresh_shown


@dataclass(frozen=True, slots=True)
class Redacted(Value):
    """The result of a redaction: the message's copies, and the entries that may repeat its words.

    `quotes` are the answers to recall tools that quote it, and `summaries` the summaries, coverings
    and extracts that were made of it; and those that quote or were made of these. `archived` are
    entries of archived sessions that are redacted when these come back, if they are copies; their
    files are not changed. All are pairs of session id and seq. For a covering, `seq` is the message
    that holds its compaction.
    `erased` is True if the bytes are gone from the file's free space too. Another reader can
    prevent that, and not every engine promises it. If the store has an `owner`, only that owner's
    copies were found: others may have restored the same log.
    """

    session_id: str
    seq: int
    copies: tuple[tuple[str, int], ...]
    quotes: tuple[tuple[str, int], ...]
    summaries: tuple[tuple[str, int], ...]
    changed: bool
    archived: tuple[tuple[str, int], ...] = ()
    dry_run: bool = False
    erased: bool = False
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Purged(Value):
    """The receipt of a purge, kept in place of the session.

    `copies` are the sessions that still hold its entries: its forks, and the session that it was
    forked from, archived ones too. The call returns them, but the receipt does not keep them. If
    the session was archived, `file` still holds its content and must be destroyed; `digest` is the
    SHA-256 of that file.
    """

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: int
    file: str | None = None
    digest: str | None = None
    copies: tuple[str, ...] = ()
    dry_run: bool = False
    erased: bool = False


class Gone(NamedTuple):
    """An entry that is redacted, and the skeleton that is left of its content."""

    seq: int
    skeleton: str

    @property
    def proof(self) -> dict[str, str]:
        """The content of the redaction: it proves that the skeleton was not exchanged."""
        return {"digest": skeleton_digest(self.seq, self.skeleton)}


_read_receipt = msgspec.json.Decoder(Purged).decode
_OF_THE_CALL = ("copies", "dry_run", "erased")
"""The fields that the call returns but the receipt does not keep."""

_SKELETONS: Mapping[str, Any] = {
    METADATA: {METADATA: {}},
    FRAME: {"tools": []},
    EXTRACT: {"text": ""},
}
"""The notes that can be redacted, with the empty content that readers of the kind expect."""
_ENTRY = log_rows("hash", "role", "note", "format", "content", "salt").where(AT_SEQ, IN_LOG)
_COVERING = log_rows("seq", "kind", "details").where(
    AT_SEQ, text(f"kind = '{Kind.COVERING}'"), IN_LOG
)
_REPLACE = (
    update(entries)
    .where(of_session(entries), entries.c.seq == bindparam("at"))
    .values(content=bindparam("skeleton"), salt=null(), extra=null())
)
_FORGET = [
    delete(erasure.table).where(of_session(erasure.table), erasure.table.c.seq == bindparam("at"))
    for erasure in ERASURES
    if erasure.redaction and erasure.table is not entries
]
# The receipt replaces everything in the session's row that quotes its log.
_TOMBSTONE = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        purged_at=bindparam("at"),
        changed_minute=bindparam("minute"),
        receipt=bindparam("kept"),
        archived_at=null(),
        archive=null(),
        first_hash=null(),
        unindexed=false(),
        title=null(),
        metadata=null(),
        first_prompt=null(),
    )
)
_before = bindparam("before", type_=BigInteger)
_RECEIPTS = crossing(
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
_DELETE = [delete(erasure.table).where(of_session(erasure.table)) for erasure in ERASURES]


def redact(log: SessionLog, seq: int, sources: Sources, *, dry_run: bool) -> Redacted:
    """Replace a message's or metadata's content by its skeleton, wherever a copy is held."""
    _refuse_part(log.tx)
    # Not locked yet: all copies are locked in the order of their ids, so that two redactions do not
    # wait for each other.
    try:
        head = read_head(log)
    except SessionArchived:
        is_new = redact_later(log, seq, None, dry_run=dry_run)
        if is_new is None:
            raise
        later = ((log.session_id, seq),)
        return Redacted(log.session_id, seq, (), (), (), is_new, later, dry_run)
    if (covering := _covering(log, seq)) is not None:
        seq, _ = covering
    row = log.row(_ENTRY, seq=seq)
    if row is None or (row[1] is None and row[2] not in _SKELETONS):
        raise MessageNotFound(
            f"Entry {seq} is not a message of the log, which ends at {head.last_seq}.",
            candidates=(1, head.last_seq),
        )
    hash_, role, note_kind, format_, content, salt = row
    heads, archived = redact_relatives(log, seq, hash_, dry_run=dry_run)
    if log.session_id not in heads:
        read_head(log)  # which raises if it was archived or purged meanwhile: its forks were not
        raise HistoryCorrupt(f"Session {log.session_id!r} has no entry 1.", seq=1)
    # Read under the locks: another redaction may have been faster. One by an owner left the copies
    # of others as they were.
    whole = sorted(row[0] for row in log.rows(WHOLE_COPIES, seq=seq, hash=hash_))
    if whole and not dry_run:
        if salt is not None:
            empty = role is None
            left = _SKELETONS[note_kind] if empty else reader(format_).skeleton(decode(content))
            content = encode(left)
        for copy in whole:
            _erase_rows(log.of(copy), heads[copy], [Gone(seq, content)], sources)
    rows = [(copy, seq) for copy in heads]
    quotes, summaries = ([], []) if role is None else _repeating(log.tx, rows)
    listed = tuple(rows), tuple(quotes), tuple(summaries)
    return Redacted(
        log.session_id,
        seq,
        *listed,
        changed=bool(whole),
        archived=tuple(archived),
        dry_run=dry_run,
        owner=log.tx.owner,
    )


def _refuse_part(tx: Transaction) -> None:
    """Refuse a store that may not show all copies of an entry."""
    if tx.is_filtered:
        line = "A store that was opened with `where` restores and redacts nothing: it does not see"
        raise InvalidOption(f"{line} all copies.", name="where")


def _covering(log: SessionLog, seq: int) -> BlockRef | None:
    """The compaction that a covering puts into effect; None if the entry is no covering."""
    row = log.row(_COVERING, seq=seq)
    return None if row is None else control_of(*row).source


def _erase_rows(log: SessionLog, head: SessionHead, gone: Sequence[Gone], sources: Sources) -> None:
    """Redact entries of a locked session: write the redactions, and put the skeletons in place."""
    notes = [note_draft(REDACTION, erased.proof, sources, target=erased.seq) for erased in gone]
    write(log, head, notes)
    for erased in gone:
        put_skeleton(log, erased.seq, erased.skeleton)
    refresh_shown(log, head.last_seq, has_prompt=head.has_prompt)


def put_skeleton(log: SessionLog, seq: int, skeleton: str) -> None:
    """Replace the content of an entry, and delete the rows that reveal something of it."""
    log.run(_REPLACE, at=seq, skeleton=skeleton)
    for forget in _FORGET:
        log.run(forget, at=seq)


def redact_copies(log: SessionLog, sources: Sources) -> list[Place]:
    """Redact the copies of redacted entries, in a restored session and in others; which ones.

    Without this, content that was erased would come back in a fork, or stay in one.
    """
    _refuse_part(log.tx)
    first = log.row(_ENTRY, seq=1)
    if first is None:
        return []
    first_copies = COPIES, {"seq": 1, "hash": first[0]}
    # All of them, so that a redaction at the same time either sees what this restore adds, or is
    # seen by it.
    heads = locked_holders(log, first_copies, lock)
    gone: defaultdict[str, list[Gone]] = defaultdict(list)
    seen: set[bytes] = set()
    for seq, hash_, skeleton, note in log.rows(ERASED, redaction=REDACTION):
        erased = Gone(seq, skeleton)
        # A skeleton that its redaction does not prove is damage, which must not spread.
        if hash_ in seen or note != encode(erased.proof):
            continue
        seen.add(hash_)
        for archived in relatives(log, first[0], seq):
            redact_later(log.of(archived), seq, hash_, dry_run=False)
        for (copy,) in log.rows(WHOLE_COPIES, seq=seq, hash=hash_):
            gone[copy].append(erased)
    for copy in sorted(gone):
        _erase_rows(log.of(copy), heads[copy], gone[copy], sources)
    return [(copy, erased.seq) for copy in sorted(gone) for erased in gone[copy]]


def purge(log: SessionLog, *, now: int, dry_run: bool, expected_seq: int | None = None) -> Purged:
    """Delete everything recorded in a session, and leave the receipt."""
    head, buried = head_or_tombstone(log, locked=not dry_run)
    check_version(expected_seq, head)
    first = buried.first_hash if buried else first_hash(log)
    copies = [row[0] for row in log.rows(WITH_FIRST, first=first)]
    receipt = Purged(
        log.session_id,
        head.last_seq,
        head.messages,
        head.bytes,
        head.last_hash.hex(),
        now,
        buried.archive.file if buried else None,
        buried.archive.digest if buried else None,
        copies=tuple(sorted((*copies, *relatives(log, first)))),
        dry_run=dry_run,
    )
    if not dry_run:
        lasting = {
            name: value
            for name, value in asdict(receipt).items()
            if name not in _OF_THE_CALL and value is not None
        }
        columns = {"at": now, "minute": head.changed_minute, "kept": encode(lasting)}
        log.run(_TOMBSTONE, **columns)
        # The row of the session stays, with the receipt: its id is never given to another history.
        for statement in _DELETE:
            log.run(statement)
    return receipt


def receipts(tx: Transaction, limit: int, after: str | None) -> Page[Purged]:
    """A page of the receipts of purged sessions, the newest first."""
    before, last = (MAX_INTEGER, "") if after is None else read_cursor("purged", after, int, str)
    rows = tx.rows(_RECEIPTS, before=before, session_id=last, page=rows_for(limit))
    try:
        receipts = [_read_receipt(row[0]) for row in rows]
    except (msgspec.DecodeError, UnicodeError, TypeError):  # TypeError: the column holds no text
        raise HistoryCorrupt("A session has a receipt that no purge has written.") from None
    return cut_page(receipts, limit, cursor_of_receipt)


def cursor_of_receipt(receipt: Purged) -> str:
    """The cursor of the page of receipts that begins after one."""
    return write_cursor("purged", receipt.purged_at, receipt.session_id)


# What may quote a message

_PARENT = select(sessions.c.parent).where(of_session(sessions))
_QUOTING = (
    log_rows("seq", "extra")
    .where(IN_LOG, entries.c.extra.is_not(None), entries.c.extra.like(bindparam("mark")))
    .order_by(entries.c.seq)
)
_MARK = f'%"{QUOTED}"%'


def _repeating(tx: Transaction, rows: Iterable[Place]) -> tuple[list[Place], list[Place]]:
    """The rows that quote one of these, and the summaries that may, and so on.

    An answer may quote a provider's compaction, and a summary may quote an answer.
    """
    quoted, size = {*rows}, 0
    quotes: list[Place] = []
    summaries: list[Place] = []
    while len(quoted) > size:
        size = len(quoted)
        quotes = _quoting_rows(tx, quoted)
        summaries = []
        for holder in sorted({name for name, _ in (*quoted, *quotes)}):
            seqs = {seq for name, seq in (*quoted, *quotes) if name == holder}
            summaries += [(holder, seq) for seq in _summaries(SessionLog(tx, holder), seqs)]
            quoted.update((holder, seq) for seq in seqs)
    return quotes, summaries


def _quoting_rows(tx: Transaction, quoted: Collection[Place]) -> list[Place]:
    """The rows that quote one of these."""
    return [
        (reader, row)
        for reader in sorted(_readers(tx, {name for name, _ in quoted}))
        for row, extra in tx.rows(_QUOTING, session_id=reader, mark=_MARK)
        if any(
            quote.lo <= seq <= quote.hi and (quote.session_id or reader) == name
            for quote in quotes_of(decode(extra))
            for name, seq in quoted
        )
    ]


def _readers(tx: Transaction, holders: Collection[str]) -> set[str]:
    """The sessions whose recall reads these: themselves, their ancestors, and forks of all."""
    readers: set[str] = set()
    level = set(holders)
    while level:
        readers |= level
        above = tx.each(_PARENT, [{"session_id": name} for name in sorted(level)])
        parents = {row[0] for row in above if row[0] is not None}
        forks = tx.each(FAMILY, [{"session_id": name} for name in sorted(parents)])
        level = parents.union(row[0] for row in forks) - readers
    return readers


def _summaries(log: SessionLog, quoted: set[int]) -> Iterator[int]:
    """The summaries, coverings and extracts, live or not, that may quote one of the rows.

    The row was live when they were made. What they are made of is added to the rows: a summary of a
    summary may quote what the first one does.
    """
    last = read_head(log).last_seq
    controls = read_controls(log, last)
    # Only these decide which rows stood: a session may have many summaries.
    taking_back = [c for c in controls if c.kind in (Kind.REWIND, Kind.UNCOVERING)]
    for control in controls:
        if control.kind not in (Kind.SUMMARY, Kind.COVERING):
            continue
        hidden = [seq for seq in quoted if within(control.hides, seq)]
        if hidden:
            standing = standing_ranges(taking_back, control.seq)
            if any(within(standing, seq) for seq in hidden):
                # The words of a covering's compaction are in its reply.
                made = control.source[0] if control.source else control.seq
                quoted.add(made)
                yield control.seq
                if control.sealed:
                    yield from (note.seq for note in notes_on(log, EXTRACT, made, last))

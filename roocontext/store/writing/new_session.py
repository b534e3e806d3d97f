"""New sessions: created empty, or as a copy of the beginning of another one.

A fork copies entries verbatim, with their seqs, client ids and hashes, so its prefix proves where
it came from. No link remains, and a purge of the origin does not change the fork.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select

from roocontext.errors import InvalidOption, SessionExists, SessionNotFound, SessionPurged
from roocontext.log.chain import GENESIS
from roocontext.log.draft import Sources, note_draft
from roocontext.log.times import ORIGIN
from roocontext.store.engine.driver_errors import UniqueViolation
from roocontext.store.engine.schema import (
    AT_SEQ,
    UP_TO_SEQ,
    RecordingMinute,
    entries,
    log_rows,
    of_session,
    sessions,
)
from roocontext.store.engine.statements import crossing, for_all
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import SessionHead, lock, read_head
from roocontext.store.reading.messages import read_controls
from roocontext.store.reading.notes import REDACTION, read_notes
from roocontext.store.reading.points_in_time import head_at, no_entry, times_at
from roocontext.store.reading.totals import add_rewound, rewound_sum
from roocontext.store.writing.append import write
from roocontext.store.writing.caches import NONE, caches_of, renew
from roocontext.store.writing.notes import Drafted
from roocontext.store.writing.shown import refresh_shown, show

_ADD_SESSION = insert(sessions)
_TAKEN = for_all(select(sessions.c.session_id).where(of_session(sessions)))
_MINUTE = select(RecordingMinute())
_AT = log_rows("hash", "messages_total", "bytes_total").where(AT_SEQ)
_COLUMNS = [column for column in entries.columns if column.name != "session_id"]
_COPY = crossing(
    insert(entries).from_select(
        ["session_id", *(column.name for column in _COLUMNS)],
        select(bindparam("fork_id", type_=entries.c.session_id.type), *_COLUMNS).where(
            of_session(entries), UP_TO_SEQ
        ),
    )
)
_PAGE = 256
_READ = (
    select(*_COLUMNS)
    .where(of_session(entries), entries.c.seq > bindparam("after"), UP_TO_SEQ)
    .order_by(entries.c.seq)
    .limit(_PAGE)
)
_ADD_ENTRIES = insert(entries)


def create_session(
    log: SessionLog, notes: Sequence[Drafted], now: int, *, parent: str | None
) -> None:
    """Create an empty session, with the notes that title it."""
    owner = log.tx.owner
    if parent is not None:
        owner = lock(log.of(parent)).owner  # locked, so that it is not purged meanwhile
    head = SessionHead(0, GENESIS, 0, 0, 0, now, now, owner=owner)
    head = add(log, head, parent=parent)
    # A new session has one open-ended span, so that an append never has to add one.
    renew(log, NONE, caches_of([], 0))
    write(log, head, [note.draft for note in notes])
    for note in notes:
        show(log, note.draft.sealed.note, note.shown)


def add(log: SessionLog, head: SessionHead, *, parent: str | None = None) -> SessionHead:
    """Insert the row of a new session, and return its head with the minute of recording."""
    if log.tx.is_filtered:
        raise InvalidOption(
            "A store that was opened with `where` creates no sessions.", name="where"
        )
    taken, [(minute,)] = log.all([(_TAKEN, {}), (_MINUTE, {})])
    if taken:
        try:
            read_head(log)
        except SessionPurged:
            raise
        except SessionNotFound:  # it is another owner's
            pass
        raise SessionExists(f"Session {log.session_id!r} exists.", session_id=log.session_id)
    head = head._replace(changed_minute=minute)
    row = dict.fromkeys(sessions.columns.keys()) | head.columns()
    row |= {"session_id": log.session_id, "parent": parent, "owner": head.owner}
    row |= {"unindexed": True, "rewound_messages": 0, "rewound_bytes": 0}
    try:
        log.run(_ADD_SESSION, **row)
    except UniqueViolation:
        raise SessionExists(
            f"Session {log.session_id!r} exists.", session_id=log.session_id
        ) from None
    return head


def fork(
    log: SessionLog,
    fork_id: str,
    sources: Sources,
    *,
    at: int | None,
    parent: str | None,
    ts: int | None,
) -> None:
    """Copy entries 1..at, and the notes that later erased some of them."""
    # The parent is locked too, so that it is not purged meanwhile; in the order of the ids, so that
    # no two forks wait for each other.
    locked = {
        name: lock(log.of(name)) for name in sorted({log.session_id, parent or log.session_id})
    }
    origin = locked[log.session_id]
    if parent is not None and locked[parent].owner != origin.owner:
        raise InvalidOption(
            "The parent of a fork must have the owner of its origin.", name="parent"
        )
    seq = origin.last_seq if at is None else at
    if not 0 <= seq <= origin.last_seq:
        raise no_entry(seq, origin.last_seq)
    hash_, messages, size = log.row(_AT, seq=seq) or (GENESIS, 0, 0)
    times = times_at(log, origin, seq)
    head_seq = head_at(log, seq)
    now = sources.now
    head = SessionHead(seq, hash_, head_seq, messages, size, now, now, times, owner=origin.owner)
    controls = read_controls(log, seq)
    fork_log = log.of(fork_id)
    head = add(fork_log, head, parent=parent)
    if log.tx.copies_rows:
        log.change(_COPY, fork_id=fork_id, seq=seq)
    else:
        for after in range(0, seq, _PAGE):
            page = log.rows(_READ, after=after, seq=seq)
            log.tx.insert(_ADD_ENTRIES, *((fork_id, *row) for row in page))
    came_from = {"session_id": log.session_id, "seq": seq, "hash": hash_.hex()}
    redactions = [
        note_draft(REDACTION, note.content, sources, target=note.target)
        for note in read_notes(log, REDACTION, origin.last_seq)
        if note.seq > seq and note.target is not None and note.target <= seq
    ]
    first = note_draft(ORIGIN, came_from, sources, ts=ts)
    write(fork_log, head, [first, *redactions])
    renew(fork_log, NONE, caches_of(controls, seq))
    add_rewound(fork_log, rewound_sum(fork_log))
    refresh_shown(fork_log, seq, has_prompt=origin.has_prompt)

"""Archived sessions: the tombstone that one leaves, the redactions kept on it, and its return.

The row of an archived session stays with its title, sizes and times, so that lists show it, and
with its head, which only the same entries have, and with the usage that they reported (0082). Its
entries and the caches of them are deleted (0081).
"""

from typing import Final, Literal, NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, false, null, select, text, update

from roocontext.errors import SessionArchived, SessionExists
from roocontext.log.chain import GENESIS
from roocontext.store.engine.schema import (
    ERASURES,
    IN_LOG,
    EngineTime,
    entries,
    facts,
    log_rows,
    of_session,
    sessions,
    turns,
)
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.copies import COPIES, locked_holders
from roocontext.store.reading.head import (
    HEAD_COLUMNS,
    Archive,
    LaterRedaction,
    SessionHead,
    lock,
    read_archive,
    read_head,
    unpack_head,
)
from roocontext.store.reading.points_in_time import no_entry
from roocontext.store.reading.usage import packed_usage

Place = tuple[str, int]


class Tombstone(NamedTuple):
    """The row of an archived session."""

    head: SessionHead
    first_hash: bytes | None
    archive: Archive


_FIRST: Final = log_rows("hash").where(entries.c.seq == text("1"))
_REDACTED = log_rows("seq", "hash").where(
    entries.c.salt.is_(None), entries.c.content.is_not(None), IN_LOG
)
_TOMBSTONE = select(sessions.c.archive, sessions.c.first_hash, *HEAD_COLUMNS).where(
    of_session(sessions), sessions.c.archived_at.is_not(None)
)
_LOCK = _TOMBSTONE.with_for_update()
_HELD = select(turns.c.holder).where(of_session(turns), turns.c.expires_at > EngineTime())
_OF_FIRST = crossing(
    select(sessions.c.session_id)
    .where(
        sessions.c.archived_at.is_not(None),
        sessions.c.first_hash == bindparam("first"),
        sessions.c.last_seq >= bindparam("seq"),
        sessions.c.session_id != bindparam("session_id"),
    )
    .order_by(sessions.c.session_id)
)
_BURY = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        archived_at=bindparam("at"),
        archive=bindparam("kept"),
        first_hash=bindparam("first"),
        unindexed=false(),
    )
)
# A list may be restricted by the metadata, which the row keeps.
_DELETE = [
    delete(erasure.table).where(of_session(erasure.table))
    for erasure in ERASURES
    if erasure.table is not facts
]
_KEEP = update(sessions).where(of_session(sessions)).values(archive=bindparam("kept"))
_EMPTIED = (*SessionHead._fields[:6], "listed_at", "updated_minute", "listed_minute")
# The restore that follows computes what else is a cache of the entries.
_REOPEN = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        archived_at=null(),
        archive=null(),
        first_hash=null(),
        rewound_messages=0,
        rewound_bytes=0,
        latest_recorded=null(),
        recorded_back=0,
        latest_happened=null(),
        happened_at=null(),
        **{name: bindparam(f"new_{name}") for name in _EMPTIED},
    )
)


def first_hash(log: SessionLog) -> bytes | None:
    """The hash of the first entry of a session that has entries here, which its forks share."""
    row = log.row(_FIRST)
    return None if row is None else row[0]


def tombstone_of(log: SessionLog, *, locked: bool = False) -> Tombstone | None:
    """The tombstone of a session; None if it is not archived."""
    row = log.row(_LOCK if locked else _TOMBSTONE)
    if row is None:
        return None
    archive, first, *columns = row
    head = unpack_head(tuple(columns))
    return Tombstone(head, first, read_archive(log.session_id, archive))


def head_or_tombstone(log: SessionLog, *, locked: bool) -> tuple[SessionHead, Tombstone | None]:
    """The head of a session, and its tombstone if it is archived."""
    try:
        return (lock if locked else read_head)(log), None
    except SessionArchived:
        buried = tombstone_of(log, locked=locked)
        if buried is None:  # it came back in the meantime
            raise
        return buried.head, buried


def has_turn(log: SessionLog, now: int) -> bool:
    """True if a runner has the turn of a session."""
    return log.row(_HELD, now=now) is not None


def bury(
    log: SessionLog, head: tuple[int, bytes], archive: Archive, *, now: int
) -> Literal["changed", "turn"] | None:
    """Delete the entries of a session and leave its tombstone; or why it is left as it is."""
    if lock(log)[:2] != head:
        return "changed"
    if has_turn(log, now):
        return "turn"
    first = first_hash(log)
    redactions = tuple(LaterRedaction(seq, hash_.hex()) for seq, hash_ in log.rows(_REDACTED))
    kept = msgspec.structs.replace(archive, redactions=redactions, usage=packed_usage(log))
    log.run(_BURY, at=now, kept=kept.to_text(), first=first)
    for statement in _DELETE:
        log.run(statement)
    return None


def relatives(log: SessionLog, first: bytes | None, seq: int = 1) -> list[str]:
    """The other archived sessions that begin with the same entry and may hold entry `seq` of it."""
    if first is None:
        return []
    rows = log.rows(_OF_FIRST, first=first, seq=seq)
    return [row[0] for row in rows]


def redact_later(log: SessionLog, seq: int, hash_: bytes | None, *, dry_run: bool) -> bool | None:
    """Keep a redaction on the tombstone of a session; whether it is new; None if there is none."""
    later = LaterRedaction(seq, None if hash_ is None else hash_.hex())
    # Read before it is locked: a relative that comes back holds the lock, and may wait for ours.
    for locked in (False, True):
        tombstone = tombstone_of(log, locked=locked)
        if tombstone is None:
            return None
        if seq > (last := tombstone.head.last_seq):
            raise no_entry(seq, last)
        known = tombstone.archive.redactions
        if later in known:
            return False
        if dry_run:
            break
        if locked:
            archive = msgspec.structs.replace(tombstone.archive, redactions=(*known, later))
            log.run(_KEEP, kept=archive.to_text())
    return True


def redact_relatives(
    log: SessionLog, seq: int, hash_: bytes, *, dry_run: bool
) -> tuple[dict[str, SessionHead], list[Place]]:
    """Lock the holders of an entry, and keep its redaction on the tombstones of archived relatives.

    A dry run locks and keeps nothing.
    """
    first, kept = first_hash(log), set[str]()
    if first is not None and not dry_run:
        log.tx.exclude_others(first)
    while True:
        # Tombstones first: a session that comes back meanwhile is then one of the holders. In the
        # order of their ids, so that two redactions do not wait for each other.
        for name in relatives(log, first, seq):
            if name in kept:
                continue
            if redact_later(log.of(name), seq, hash_, dry_run=dry_run) is not None:
                kept.add(name)
        copies = COPIES, {"seq": seq, "hash": hash_}
        heads = locked_holders(log, copies, read_head if dry_run else lock)
        if kept.issuperset(relatives(log, first, seq)):
            return heads, [(name, seq) for name in sorted(kept)]


def reopen(log: SessionLog) -> tuple[SessionHead, Tombstone]:
    """Empty the row of an archived session, for its entries to be written again."""
    tombstone = tombstone_of(log, locked=True)
    if tombstone is None:  # it came back or was purged while we waited
        read_head(log)
        raise SessionExists(f"Session {log.session_id!r} exists.", session_id=log.session_id)
    at = tombstone.head.created_at
    head = SessionHead(0, GENESIS, 0, 0, 0, at, at)
    columns = head.columns()
    log.run(_REOPEN, **{f"new_{name}": columns[name] for name in _EMPTIED})
    return read_head(log), tombstone


def check_return(session_id: str, tombstone: Tombstone, seq: int, hash_: bytes) -> None:
    """Refuse entries that do not end with the head of the archived session."""
    archive, (last_seq, last_hash) = tombstone.archive, tombstone.head[:2]
    if (seq, hash_) == (last_seq, last_hash):
        return
    raise SessionArchived(
        f"Session {session_id!r} was archived with entry {last_seq}"
        f" ({last_hash.hex()[:12]}) as its last, but these entries end with entry {seq}"
        f" ({hash_.hex()[:12]}).",
        advice=f"Nothing was written. Import {archive.file!r} (SHA-256 {archive.digest}).",
        session_id=session_id,
        file=archive.file,
        digest=archive.digest,
        seq=last_seq,
        hash=last_hash.hex(),
    )

"""The head of a session: its last entry, its totals, and the lock that a writer takes on it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, select, update
from sqlalchemy.sql import Update

from roocontext.errors import (
    HistoryCorrupt,
    SessionArchived,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from roocontext.log.encoding import decode
from roocontext.log.times import Times, listed, minute_of
from roocontext.store.engine.schema import RecordingMinute, of_session, sessions
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow


class SessionHead(NamedTuple):
    """The last entry of a session, its last fold entry, its totals and times.

    `changed_minute` is what the row holds when it has been written. `is_marked` is whether it holds
    that already, and that there is something to index.
    """

    last_seq: int
    last_hash: bytes
    head_seq: int
    messages: int
    bytes: int
    updated_at: int
    created_at: int
    times: Times = Times()
    has_prompt: bool = False
    changed_minute: int = 0
    is_marked: bool = True
    owner: str | None = None

    @property
    def happened_at(self) -> int:
        """The session's own time."""
        own = self.times.happened_at
        return self.created_at if own is None else own

    @property
    def listed_at(self) -> int:
        """The time that lists are ordered by."""
        return listed(self.happened_at, self.updated_at)

    @property
    def minutes(self) -> tuple[int, int]:
        """The minutes that lists find the session by."""
        return minute_of(self.updated_at), minute_of(self.listed_at)

    def moved(self) -> tuple[Any, ...]:
        """The values that every entry changes, in the order of the columns."""
        return (*self[:_CREATED], *self.times, self.listed_at)

    def columns(self) -> dict[str, Any]:
        """The same and the indexed minutes, as columns of the session's row."""
        values = (*self.moved(), *self.minutes)
        row = dict(zip((*_MOVED, *MINUTES), values, strict=True))
        return row | {"created_at": self.created_at, "changed_minute": self.changed_minute}


class LaterRedaction(msgspec.Struct, frozen=True, array_like=True):
    """An entry that is redacted wherever it comes back, if it has this hash.

    None is any entry there, but only of the session itself.
    """

    seq: int
    hash: str | None


class Archive(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the entries of an archived session are, and which are redacted, before or since.

    The `usage` that its entries reported stays here, so that a bill does not become smaller.
    """

    file: str
    digest: str
    size: int
    redactions: tuple[LaterRedaction, ...] = ()
    usage: str = ""

    def to_text(self) -> str:
        """The text that the row of the session keeps."""
        return msgspec.json.encode(self).decode()


MINUTES = ("updated_minute", "listed_minute")
"""The columns by which sessions are indexed: their times, in minutes."""

_decode_archive = msgspec.json.Decoder(Archive).decode
HEAD_COLUMNS = (
    # In the order of the fields of a head, as far as it has columns of the same names.
    *(sessions.c[name] for name in SessionHead._fields[: SessionHead._fields.index("times")]),
    *(sessions.c[name] for name in Times._fields),
    sessions.c.first_prompt.is_not(None),
    sessions.c.unindexed,
    sessions.c.changed_minute,
    RecordingMinute(),
    sessions.c.owner,
    sessions.c.archived_at,
    sessions.c.archive,
    sessions.c.purged_at,
    sessions.c.receipt,
)
_READ_HEAD = select(*HEAD_COLUMNS).where(of_session(sessions))
# SQLite has no row locks and ignores this: there the transaction holds the file's write lock.
_LOCK_HEAD = _READ_HEAD.with_for_update()
HEAD: Query = (_READ_HEAD, {})
"""The query for the head of a session, to be sent with other queries."""
LOCKED_HEAD: Query = (_LOCK_HEAD, {})
"""The query that locks a session. Send it first: the others then see the locked state."""
_CREATED = SessionHead._fields.index("created_at")
_TIMES = SessionHead._fields.index("times")
_MOVED = (*SessionHead._fields[:_CREATED], *Times._fields, "listed_at")


def _move_head(*names: str) -> Update:
    # Ordered, because `move_head` passes the values of a head without names.
    return (
        update(sessions)
        .where(of_session(sessions))
        .ordered_values(*((sessions.c[name], bindparam(f"new_{name}")) for name in names))
    )


_MOVE_HEAD = _move_head(*_MOVED)
# SQLite writes an index anew whenever a statement names its column, changed or not.
_MOVE_INDEXED = _move_head(*_MOVED, *MINUTES, "changed_minute", "unindexed")


class RequestedChange(NamedTuple):
    """The conditions of a rewind, an undo or an uncovering, and when it is made."""

    expected_seq: int | None
    trigger: str
    now: int
    dry_run: bool = False

    @property
    def head(self) -> Query:
        """The query for the head, which locks the session unless this is a dry run."""
        return HEAD if self.dry_run else LOCKED_HEAD


def lock(log: SessionLog) -> SessionHead:
    """Read the head of a session that will be written: other writers wait until this one ends."""
    return read_with_head(log, [], LOCKED_HEAD)[0]


def read_head(log: SessionLog) -> SessionHead:
    """Read the head of a session; an error if there is none, or if it was purged or archived."""
    return to_head(log.session_id, log.rows(_READ_HEAD))


def read_with_head(
    log: SessionLog, queries: Sequence[Query], head: Query | None = None
) -> tuple[SessionHead, list[list[SqlRow]]]:
    """Read the head of a session and the rows of other queries, in one request."""
    rows, *others = log.all([head or HEAD, *queries])
    if log.tx.is_filtered and head is LOCKED_HEAD:
        # Having waited for the lock, a server looks at the session's row anew, but not at its
        # metadata in another table.
        rows = log.rows(_READ_HEAD)
    return to_head(log.session_id, rows), others


def to_head(session_id: str, rows: Sequence[SqlRow]) -> SessionHead:
    """Make the head from the rows of either query, or raise the error that there is none."""
    if not rows:
        raise SessionNotFound(f"There is no session {session_id!r}.", session_id=session_id)
    archived_at, archive, purged_at, receipt = rows[0][-4:]
    if purged_at is not None:
        # A purged row stays as a receipt, so its id is never used for another history.
        raise SessionPurged(
            f"Session {session_id!r} was purged.", session_id=session_id, receipt=decode(receipt)
        )
    if archived_at is not None:
        raise _archived(session_id, archived_at, archive, *rows[0][:2])
    return unpack_head(rows[0])


def unpack_head(row: SqlRow) -> SessionHead:
    """Make the head from a row with these columns, even of an archived session."""
    *counted, has_prompt, is_unindexed, changed, minute, owner = row[:-4]
    times = Times(*counted[_TIMES:])
    return SessionHead._make(
        [
            *(*counted[:_TIMES], times, bool(has_prompt)),
            *(max(changed, minute), bool(is_unindexed) and changed >= minute, owner),
        ]
    )


def read_archive(session_id: str, text: str) -> Archive:
    """Read what the row of an archived session keeps."""
    try:
        return _decode_archive(text)
    except (msgspec.DecodeError, UnicodeError, TypeError):  # TypeError: the column holds no text
        line = f"Session {session_id!r} has a tombstone that no archive has written."
        raise HistoryCorrupt(line) from None


def _archived(
    session_id: str, at: int, archive: str, last_seq: int, last_hash: bytes
) -> SessionArchived:
    tombstone = read_archive(session_id, archive)
    return SessionArchived(
        f"Session {session_id!r} is archived in {tombstone.file!r} (SHA-256 {tombstone.digest}).",
        session_id=session_id,
        file=tombstone.file,
        digest=tombstone.digest,
        archived_at=at,
        seq=last_seq,
        hash=last_hash.hex(),
    )


def check_version(expected_seq: int | None, head: SessionHead) -> None:
    """Refuse a writer that expected another head."""
    if expected_seq is not None and expected_seq != head.head_seq:
        raise VersionConflict(
            f"Expected head {expected_seq}, but it is {head.head_seq}.",
            expected=expected_seq,
            actual=head.head_seq,
        )


def move_head(log: SessionLog, old: SessionHead, new: SessionHead) -> None:
    """Write the new head of a session that is locked."""
    if new.minutes == old.minutes and old.is_marked:
        log.tx.put(_MOVE_HEAD, (*new.moved(), log.session_id))
    else:
        log.tx.put(
            _MOVE_INDEXED, (*new.moved(), *new.minutes, old.changed_minute, True, log.session_id)
        )

"""The sessions that hold the same entries: a fork copies them with their hashes."""

from collections.abc import Callable

from sqlalchemy import FromClause, ScalarSelect, and_, bindparam, select, text

from roocontext.errors import SessionArchived, SessionPurged
from roocontext.store.engine.schema import entries, of_session, sessions
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import Query, SessionLog
from roocontext.store.reading.head import SessionHead

_first = entries.alias("first")
_copy = entries.alias("copy")
_note = entries.alias("note")
_same_beginning = and_(
    _first.c.hash
    == select(entries.c.hash).where(of_session(entries), entries.c.seq == 1).scalar_subquery(),
    text("first.seq = 1"),  # the literal that the partial index is made with
)


def _last_of(row: FromClause) -> ScalarSelect[int]:
    """The last seq of the session that a row is of: there may be none, or it may end before."""
    there = sessions.c.session_id == row.c.session_id, sessions.c.purged_at.is_(None)
    return select(sessions.c.last_seq).where(*there).scalar_subquery()


_last_of_copy = _last_of(_copy)
COPIES = crossing(
    select(_copy.c.session_id)
    .select_from(_first.join(_copy, _copy.c.session_id == _first.c.session_id))
    .where(
        _same_beginning,
        _copy.c.seq == bindparam("seq"),
        _copy.c.hash == bindparam("hash"),
        _copy.c.seq <= _last_of_copy,
    )
)
WHOLE_COPIES = COPIES.where(_copy.c.salt.is_not(None))
"""Those of them that are not redacted."""
ERASED = crossing(
    select(_copy.c.seq, _copy.c.hash, _copy.c.content, _note.c.content)
    .select_from(
        _first.join(_note, _note.c.session_id == _first.c.session_id).join(
            _copy, and_(_copy.c.session_id == _first.c.session_id, _copy.c.seq == _note.c.target)
        )
    )
    .where(
        _same_beginning,
        _note.c.note.is_not(None),
        _note.c.note == bindparam("redaction"),
        _note.c.seq <= _last_of_copy,
        _copy.c.salt.is_(None),
        _copy.c.content.is_not(None),
        _copy.c.seq <= _last_of_copy,
    )
    .order_by(_copy.c.seq, _copy.c.session_id)
)
"""The redacted entries of a session and its copies, with their skeletons and redactions."""
_others = (
    select(_first.c.session_id)
    .where(_first.c.session_id != bindparam("session_id"), _first.c.seq <= _last_of(_first))
    .order_by(_first.c.session_id)
)
FAMILY = crossing(_others.where(_same_beginning))
"""The other sessions that begin with the same entry."""
WITH_FIRST = crossing(_others.where(_first.c.hash == bindparam("first"), text("first.seq = 1")))
"""The same, by the hash of that entry."""


def locked_holders(
    log: SessionLog, query: Query, lock: Callable[[SessionLog], SessionHead]
) -> dict[str, SessionHead]:
    """Lock the sessions that a query returns, in the order of their ids."""
    statement, params = query
    heads: dict[str, SessionHead] = {}
    while True:  # a fork may have been made while we waited for a lock
        holders = sorted(row[0] for row in log.rows(statement, **params))
        missing = [holder for holder in holders if holder not in heads]
        if not missing:
            return heads
        for holder in missing:
            try:
                heads[holder] = lock(log.of(holder))
            except (SessionPurged, SessionArchived):  # while we waited for it
                if holder == log.session_id:
                    raise

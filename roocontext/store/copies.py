"""The sessions that hold the same entries: a fork copies them with their hashes."""

from sqlalchemy import and_, bindparam, select, text

from roocontext.store.schema import entries, sessions

_first = entries.alias("first")
_copy = entries.alias("copy")
_same_beginning = and_(
    _first.c.hash
    == select(entries.c.hash)
    .where(entries.c.session_id == bindparam("session_id"), entries.c.seq == 1)
    .scalar_subquery(),
    text("first.seq = 1"),  # the literal that the partial index is made with
)
# Somebody may have put a copy where there is no session, or outside its log.
_last_of_copy = (
    select(sessions.c.last_seq)
    .where(sessions.c.session_id == _copy.c.session_id, sessions.c.purged_at.is_(None))
    .scalar_subquery()
)
COPIES = (
    select(_copy.c.session_id)
    .select_from(_first.join(_copy, _copy.c.session_id == _first.c.session_id))
    .where(
        _same_beginning,
        _copy.c.seq == bindparam("seq"),
        _copy.c.hash == bindparam("hash"),
        _copy.c.seq <= _last_of_copy,
    )
)
FAMILY = (
    select(_first.c.session_id)
    .where(_same_beginning, _first.c.session_id != bindparam("session_id"))
    .order_by(_first.c.session_id)
)

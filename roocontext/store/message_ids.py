"""Messages by the agent's own ids. An agent may give the same id to several messages."""

from collections.abc import Sequence
from difflib import get_close_matches

from sqlalchemy import bindparam, select

from roocontext.errors import MessageNotFound
from roocontext.log.entries import Range
from roocontext.log.spans import standing_ranges, within
from roocontext.store.engine.transaction import Query, Transaction
from roocontext.store.head import head_query, to_head
from roocontext.store.schema import IN_LOG, entries
from roocontext.store.times import IS_FOLDED
from roocontext.store.view import ALL_CONTROLS, IS_MESSAGE, to_controls

_in_session = entries.c.session_id == bindparam("session_id")
_BY_ID = (
    select(entries.c.seq, entries.c.ts, entries.c.recorded_at)
    .where(
        _in_session,
        entries.c.message_id.is_not(None),
        entries.c.message_id == bindparam("message_id"),
        IS_FOLDED,
        IS_MESSAGE,
        IN_LOG,
    )
    .order_by(entries.c.seq.desc())
)
# Candidates for an error: the newest hundred, so that a typing error in a long session costs
# little.
_NEWEST_IDS = (
    select(entries.c.message_id, entries.c.seq)
    .where(_in_session, entries.c.message_id.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(100)
)


def by_id(session_id: str, message_id: str) -> Query:
    """The query for the messages with an id, newest first: seq, ts and the time of recording."""
    return _BY_ID, {"session_id": session_id, "message_id": message_id}


def find(tx: Transaction, session_id: str, message_id: str) -> int:
    """The newest live message with an id, or else the newest that a rewind took back."""
    controls = (ALL_CONTROLS, {"session_id": session_id})
    head, controlling, rows = tx.all(
        [head_query(session_id), controls, by_id(session_id, message_id)]
    )
    if not rows:
        raise unknown(tx, session_id, message_id)
    live = standing_ranges(to_controls(controlling), to_head(session_id, head).last_seq)
    seqs: list[int] = [row[0] for row in rows]
    return next((seq for seq in seqs if within(live, seq)), seqs[0])


def unknown(
    tx: Transaction, session_id: str, message_id: str, live: Sequence[Range] | None = None
) -> MessageNotFound:
    """The error for an id that no message has, or no live one, with the nearest ids."""
    ids = tx.rows(_NEWEST_IDS, session_id=session_id)
    known = {name[:64]: name for name, seq in ids if live is None or within(live, seq)}
    near = get_close_matches(message_id[:64], known, n=3, cutoff=0.0) if known else []
    nearest = f"; the nearest are {in_words([*map(repr, near)])}" if near else ""
    what = "message" if live is None else "live message"
    return MessageNotFound(
        f"No {what} has the id {message_id[:64]!r}{nearest}.",
        candidates=tuple(known[one] for one in near),
        message_id=message_id,
    )


def in_words(names: Sequence[str]) -> str:
    """Join a few names: `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

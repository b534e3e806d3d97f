"""Points in time: the seq that a seq or a datetime names, and the head of a session at a seq."""

from sqlalchemy import bindparam, select

from roocontext.errors import MessageNotFound
from roocontext.log.moments import Moment, Point
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import read_head
from roocontext.store.schema import UP_TO_SEQ, entries
from roocontext.store.times import IS_FOLDED, last_at

_HEAD_AT = (
    select(entries.c.seq)
    .where(entries.c.session_id == bindparam("session_id"), UP_TO_SEQ, IS_FOLDED)
    .order_by(entries.c.seq.desc())
    .limit(1)
)


def seq_at(tx: Transaction, session_id: str, as_of: Point) -> int:
    """The seq that a point in time names; None is now."""
    head = read_head(tx, session_id)
    if as_of is None:
        return head.last_seq
    if isinstance(as_of, Moment):
        return last_at(tx, session_id, head, as_of)
    if not 0 <= as_of <= head.last_seq:
        raise no_entry(as_of, head.last_seq)
    return as_of


def no_entry(seq: int, last: int) -> MessageNotFound:
    """The error for an entry that a log of so many does not have."""
    held = f"the log holds 1 to {last}" if last else "the log has no entry yet"
    return MessageNotFound(f"Entry {seq} does not exist: {held}.", candidates=(0, last))


def head_at(tx: Transaction, session_id: str, seq: int) -> int:
    """The last fold entry up to a seq."""
    row = tx.row(_HEAD_AT, session_id=session_id, seq=seq)
    return row[0] if row else 0

"""An agent's loop over a session: whose turn it is, and which tool calls wait.

What is recorded decides, so that the loop goes on after a crash where it was. `log.turns` is the
definition; this reads the few last messages for it, from the end.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlalchemy import bindparam, select, text

from roocontext.log.draft import RESERVED
from roocontext.log.encoding import MAX_INTEGER, decode
from roocontext.log.entries import Range
from roocontext.log.turns import PAUSED, LastTurn, PendingCall, Turn, last_turn
from roocontext.store.head import read_head
from roocontext.store.notes import BEGUN, notes_on
from roocontext.store.schema import IN_LOG, entries, spans
from roocontext.store.transaction import Transaction
from roocontext.store.view import SPANS_PAGE, read_backwards

PAGE: Final = 8
"""How many messages are read at once: enough for the end of most sessions."""

_STANDING_BACK = (
    select(spans.c.lo, spans.c.hi)
    .where(
        spans.c.session_id == bindparam("session_id"),
        spans.c.lo < bindparam("lo"),
        text("rewound_by IS NULL AND uncovered_by IS NULL"),
    )
    .order_by(spans.c.lo.desc())
    .limit(SPANS_PAGE)
)
_EXTRA = select(entries.c.extra).where(
    entries.c.session_id == bindparam("session_id"), entries.c.seq == bindparam("seq"), IN_LOG
)


def waits_for(tx: Transaction, session_id: str) -> Turn:
    """Whose turn it is."""
    end = _end(tx, session_id)
    turn = end.waits_for
    if turn == "user" and end.reply and _stop_reason(tx, session_id, end.reply.seq) == PAUSED:
        return "model"
    return turn


def pending(tx: Transaction, session_id: str) -> list[PendingCall]:
    """The calls that wait, oldest first."""
    waiting = _end(tx, session_id).pending
    last = read_head(tx, session_id).last_seq
    begun = {
        (seq, note.content["block"])
        for seq in {call.seq for call in waiting}
        for note in notes_on(tx, session_id, BEGUN, seq, last)
    }
    return [replace(call, begun=call.place in begun) for call in waiting]


def _end(tx: Transaction, session_id: str) -> LastTurn:
    # From the last fold entry on: behind it are only notes, of which there may be many.
    last = read_head(tx, session_id).head_seq
    return last_turn(read_backwards(tx, session_id, _standing(tx, session_id, last), PAGE))


def _standing(tx: Transaction, session_id: str, last: int) -> Iterator[Range]:
    """The ranges of what is live, hidden or not, from the last one on."""
    lo = MAX_INTEGER
    while rows := tx.rows(_STANDING_BACK, session_id=session_id, lo=lo):
        yield from ((max(lo, 1), min(hi, last)) for lo, hi in rows if lo <= last)
        lo = rows[-1][0]


def _stop_reason(tx: Transaction, session_id: str, seq: int) -> object:
    """Why the reply ended, if it was recorded with that."""
    row = tx.row(_EXTRA, session_id=session_id, seq=seq)
    match decode(row[0]) if row and row[0] else None:
        case dict(extra) if isinstance(kept := extra.get(RESERVED), dict):
            return kept.get("stop_reason")
    return None

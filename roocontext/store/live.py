"""Every live message with its tags, hidden ones too: the view of a program that keeps one list.

What an uncovering took back is not among them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from roocontext.log.entries import Control, Message, Range
from roocontext.log.spans import spans_of, standing_ranges
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import read_head
from roocontext.store.schema import entries
from roocontext.store.view import Cleared, cleared_at, read_controls, read_messages


class LiveMessage(NamedTuple):
    """A live message, and the ids of the summary and of the marker that hide it."""

    message: Message
    condense_parent: str | None
    truncation_parent: str | None


_COMPACTION = select(entries.c.seq, entries.c.compaction_id).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq == bindparam("seq"),
)


def live_ranges_now(tx: Transaction, session_id: str) -> tuple[Sequence[Range], Cleared]:
    """What is live and not taken back by an uncovering, ascending, and what is cleared in it."""
    last = read_head(tx, session_id).last_seq
    controls = read_controls(tx, session_id, last)
    return standing_ranges(controls, last), cleared_at(controls, last)


def read_live(tx: Transaction, session_id: str) -> list[LiveMessage]:
    """The live messages in view order, cleared as the view shows them."""
    last = read_head(tx, session_id).last_seq
    return live_messages(tx, session_id, read_controls(tx, session_id, last), last)


def live_messages(
    tx: Transaction, session_id: str, controls: Sequence[Control], last: int
) -> list[LiveMessage]:
    """The same, of a session with these control rows that ends at entry `last`."""
    alive = sorted(
        (s for s in spans_of(controls, last) if s.standing and s.lo <= last),
        # In view order, as a program that keeps one list has them: an inserted row has a late seq.
        key=lambda span: span.position,
    )
    parents = {seq for s in alive for seq in (s.condense_parent, s.truncation_parent) if seq}
    rows = tx.each(_COMPACTION, [{"session_id": session_id, "seq": seq} for seq in sorted(parents)])
    names: dict[int | None, str | None] = dict(rows)
    cleared = cleared_at(controls, last)
    found = []
    for span in alive:
        stretch: Range = (span.lo, min(span.hi, last))
        tags = names.get(span.condense_parent), names.get(span.truncation_parent)
        messages = read_messages(tx, session_id, [stretch], cleared)
        found += [LiveMessage(message, *tags) for message in messages]
    return found

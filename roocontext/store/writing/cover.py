"""Coverings: what a provider's compaction in a recorded reply hides.

It is no plan. The provider has compacted what its request had read, whatever is pinned, so nothing
can be refused: the covering records it, and the audit says which pins it did not keep.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select

from roocontext.log.compactions import Compaction
from roocontext.log.draft import control_draft, details_of
from roocontext.log.entries import Control, Kind, Range, common, subtract
from roocontext.log.spans import within
from roocontext.store.engine.schema import entries
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead
from roocontext.store.reading.messages import IS_MESSAGE, bounds
from roocontext.store.reading.notes import pinned
from roocontext.store.reading.totals import totals_of
from roocontext.store.writing.caches import Decided, Tail, read_tail, write_decided
from roocontext.store.writing.uncover import companions

_MESSAGES_IN = (
    select(entries.c.seq)
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("lo"), bindparam("hi")),
        IS_MESSAGE,
    )
    .order_by(entries.c.seq)
)


class ReplyRow(NamedTuple):
    """A reply that holds a compaction: its entry, and the last one that its request had read."""

    seq: int
    asked_at: int | None
    compaction: Compaction
    model: str | None

    @property
    def read_up_to(self) -> int:
        """The last entry that the provider had read."""
        return self.seq - 1 if self.asked_at is None else self.asked_at


class Covered(NamedTuple):
    """A covering that was written: its entry and hash, the messages it hides, and those unread."""

    seq: int
    hash: str
    compaction_id: str
    hidden: int
    unread: tuple[int, ...]


def cover(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    reply: ReplyRow,
    *,
    now: int,
    new_id: Callable[[], str],
) -> Covered | None:
    """Write the covering of a reply to a locked session; None if it hides nothing.

    After a rewind or an uncovering since the request, the view is not what the provider read.
    """
    tail = read_tail(tx, session_id, head.last_seq, 1)
    if any(
        control.kind in (Kind.REWIND, Kind.UNCOVERING) and control.seq > reply.read_up_to
        for control in tail.controls
    ):
        return None
    hides = _hidden(tx, session_id, tail, reply)
    (hidden,) = totals_of(tx, session_id, [hides])
    if not hidden.messages:
        return None
    left = subtract(tail.ranges(tail.spans()), [*hides, (reply.seq, reply.seq)])
    unread = _messages_in(tx, session_id, common(left, [(reply.read_up_to + 1, reply.seq)]))
    control = Control(
        head.last_seq + 1,
        Kind.COVERING,
        hides=hides,
        source=(reply.seq, reply.compaction.block),
        sealed=reply.compaction.text is None,
    )
    record: dict[str, Any] = {"by": "provider", "trigger": "provider", "model": reply.model}
    if pins := sorted(seq for seq in pinned(tx, session_id, head.last_seq) if within(hides, seq)):
        record["pins"] = pins
    compaction_id = new_id()
    draft = control_draft(
        Kind.COVERING, details_of(control, record), now=now, compaction_id=compaction_id
    )
    decision = Decided(None, head, (draft,), tail, tail.followed_by([control]))
    (receipt,) = write_decided(tx, session_id, decision)
    return Covered(receipt.seq, receipt.hash, compaction_id, hidden.messages, tuple(unread))


def _hidden(tx: Transaction, session_id: str, tail: Tail, reply: ReplyRow) -> tuple[Range, ...]:
    """The visible rows that the request had read, and later rows that only stand for such."""
    visible = tail.ranges(tail.spans())
    read = reply.read_up_to
    ranges = list(common(visible, [(1, read)])) if read else []
    for control in tail.controls:
        is_new = control.kind in (Kind.SUMMARY, Kind.MARKER) and read < control.seq < reply.seq
        if is_new and all(hi <= read for _, hi in control.hides):
            rows = [control.seq, *companions(tx, session_id, control.seq)]
            ranges += [(row, row) for row in rows if within(visible, row)]
    return tuple(sorted(ranges))


def _messages_in(tx: Transaction, session_id: str, ranges: Sequence[Range]) -> list[int]:
    return [row[0] for row in tx.each(_MESSAGES_IN, bounds(session_id, ranges))]

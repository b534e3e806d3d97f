"""What the checks of a plan know of a session."""

from roocontext.log.plan import Plan
from roocontext.log.spans import Span, standing_ranges, within
from roocontext.store.caches import reaching, read_with_tail
from roocontext.store.engine.transaction import Query, Transaction
from roocontext.store.notes import PIN, REDACTION, notes_query, to_pins
from roocontext.store.view import VISIBLE_SPANS


class CommitState:
    """What the checks of a plan ask of a session: its view, its pins, and the end of its log.

    The end begins before the first row that the plan speaks of: no earlier row is looked at. The
    head comes with it, by the query that is given: one that locks the session or not.
    """

    def __init__(self, tx: Transaction, session_id: str, plan: Plan, head: Query) -> None:
        self.tx = tx
        self.session_id = session_id
        self.head, self.tail, (pins, self.redactions, shown) = read_with_tail(
            tx,
            session_id,
            head,
            min(seq for seq, _ in (*plan.hides, *plan.clears)),
            # Sent with the two statements of the tail: the lock is held for one round trip less.
            [
                notes_query(session_id, PIN),
                notes_query(session_id, REDACTION),
                (VISIBLE_SPANS, {"session_id": session_id}),
            ],
        )
        self.spans = self._spans()
        # Of what is before the end, the cache says what is visible.
        before = [part for row in shown for part in Span(*row).cut([(1, self.tail.since - 1)])]
        visible = [*before, *(span for span in self.spans if span.visible)]
        self.visible = sorted(visible, key=lambda span: span.position)
        self.visible_ranges = tuple(sorted((s.lo, s.hi) for s in visible))
        self.ranges = standing_ranges(self.tail.controls, self.head.last_seq)
        self.pins = {seq for seq in to_pins(pins) if self.stands(seq)}

    def stands(self, seq: int) -> bool:
        """Whether a row counts now: one that the plan may name, or a visible one."""
        known = self.ranges if seq >= self.tail.since else self.visible_ranges
        return within(known, seq)

    @property
    def standing(self) -> list[Span]:
        """The spans of the end, without what rewinds and uncoverings took back."""
        return [part for span in self.spans for part in span.cut(self.ranges)]

    def from_row(self, first: int) -> None:
        """Let the end begin before this row too."""
        longer = reaching(self.tx, self.session_id, self.tail, first)
        if longer is not self.tail:
            self.tail = longer
            self.ranges = standing_ranges(self.tail.controls, self.head.last_seq)
            self.spans = self._spans()

    def _spans(self) -> list[Span]:
        """The spans of the end, up to the last entry."""
        return [part for s in self.tail.spans() for part in s.cut([(1, self.head.last_seq)])]

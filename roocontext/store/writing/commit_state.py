"""The state of a session that a plan is checked against.

No plan separates a tool call from its result, or hides a message that belongs to a pinned one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

from roocontext.errors import InvalidPlan
from roocontext.log.entries import BlockRef, Range, block_ref, subtract
from roocontext.log.pairs import (
    Links,
    Tools,
    bound,
    links_of,
    matched,
    reach,
    tools_from,
    unsettled,
)
from roocontext.log.plan import Plan
from roocontext.log.spans import Span, standing_ranges, within
from roocontext.store.engine.schema import IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow
from roocontext.store.reading.messages import bounds
from roocontext.store.reading.notes import PIN, REDACTION, notes_query, to_pins
from roocontext.store.reading.view import VISIBLE_SPANS
from roocontext.store.writing.caches import reaching, read_with_tail

_TOOLS = (
    log_rows("seq", "tools", "answers_seq", "answers_block")
    .where(IN_RANGE, entries.c.tools.is_not(None))
    .order_by(entries.c.seq)
)


class CommitState:
    """The view of a session, its pins, and the end of its log.

    The end begins before the first row that the plan names: no earlier row is looked at. The head
    is read by the query that is given, which locks the session or not.
    """

    def __init__(self, log: SessionLog, plan: Plan, head: Query) -> None:
        if plan.session_id not in (None, log.session_id):
            raise InvalidPlan(f"The plan was made for session {plan.session_id!r}.")
        self.log = log
        first = min(seq for seq, _ in (*plan.hides, *plan.clears))
        # Sent with the two statements of the tail: the lock is held for one round trip less.
        notes = (notes_query(kind) for kind in (PIN, REDACTION))
        others = [*notes, (VISIBLE_SPANS, {})]
        self.head, self.tail, rows = read_with_tail(log, head, first, others)
        pins, self.redactions, span_rows = rows
        self._follow_tail()
        # Before the end, the cache says which spans are visible.
        before = [part for row in span_rows for part in Span(*row).cut([(1, self.tail.since - 1)])]
        visible = [*before, *(span for span in self.spans if span.visible)]
        self.visible = sorted(visible, key=attrgetter("position"))
        self.visible_ranges = tuple(sorted((span.lo, span.hi) for span in visible))
        self.pins = {seq for seq in to_pins(pins) if self.stands(seq)}

    def stands(self, seq: int) -> bool:
        """True if a row counts now: one that the plan may name, or a visible one."""
        known = self.ranges if seq >= self.tail.since else self.visible_ranges
        return within(known, seq)

    @property
    def standing(self) -> list[Span]:
        """The spans of the end, without the rows that rewinds and uncoverings took back."""
        return [part for span in self.spans for part in span.cut(self.ranges)]

    def from_row(self, first: int) -> None:
        """Let the end begin before this row too."""
        longer = reaching(self.log, self.tail, first)
        if longer is not self.tail:
            self.tail = longer
            self._follow_tail()

    def _follow_tail(self) -> None:
        last = self.head.last_seq
        self.ranges = standing_ranges(self.tail.controls, last)
        self.spans = [part for span in self.tail.spans() for part in span.cut([(1, last)])]


class _Message(NamedTuple):
    """A message that calls tools or answers calls."""

    position: int
    seq: int
    tools: Tools
    answers: BlockRef | None


def bound_by_pins(state: CommitState, *, partnered: bool) -> set[int]:
    """The live pinned messages, and if a plan might separate them, their tool partners."""
    # Nearly always there are no pins. A plan that may not separate pairs keeps the partners of the
    # messages that it keeps, so it needs no search either.
    if not state.pins or not partnered:
        return state.pins
    read = _read(state, state.visible)
    rows = [(seq, tools_from(text), block_ref(*call)) for part in read for seq, text, *call in part]
    links = links_of((seq, answers) for seq, _, answers in rows)
    groups = bound(matched([tools for _, tools, _ in rows], links))
    return state.pins | {
        rows[other][0]
        for index, (seq, *_) in enumerate(rows)
        if seq in state.pins
        for other in groups.get(index, ())
    }


def check_no_split(state: CommitState, hidden: Sequence[Range], smaller: Sequence[Range]) -> None:
    """Refuse a plan that would separate a tool call from its result.

    A separated pair shows from either side, so the smaller one is read. Of the other side only
    those stretches are read, where a loose call or result of the smaller may have its partner.
    """
    # See decision 0013, also for why ids are stored apart from the content.
    larger = subtract(state.visible_ranges, smaller)
    here, there = (
        [part for span in state.visible for part in span.cut(side)] for side in (smaller, larger)
    )
    starts = [part.position for part in there]
    messages = list(_unsettled(state, here, starts))
    before = [bisect_left(starts, message.position) for message in messages]
    stretches = reach([message.tools for message in messages], before, len(there), _links(messages))
    if not stretches:
        return
    between = [message.position for message in messages]
    messages += _unsettled(state, there[stretches.start : stretches.stop], between)
    messages.sort()
    for pair in matched([message.tools for message in messages], _links(messages)):
        call, result = messages[pair.call[0]].seq, messages[pair.result[0]].seq
        if within(hidden, call) != within(hidden, result):
            raise InvalidPlan(
                f"The plan would separate the tool call in entry {call} from its result in"
                f" entry {result}.",
                call=call,
                result=result,
            )


def _unsettled(
    state: CommitState, parts: Sequence[Span], others: Sequence[int]
) -> Iterator[_Message]:
    """The messages in these parts of the view that may have partners outside, in order.

    `others` are the positions that lie between the parts, ascending.
    """
    # In the view an inserted row precedes older ones, so places and seqs are sorted apart.
    by_row = sorted(parts, key=attrgetter("lo"))
    starts = [part.lo for part in by_row]
    read = zip(parts, _read(state, parts), strict=True)
    for _, together in groupby(read, lambda pair: bisect_left(others, pair[0].position)):
        rows = list(chain.from_iterable(rows for _, rows in together))
        for index in unsettled(rows):
            seq, text, *call = rows[index]
            part = by_row[bisect_right(starts, seq) - 1]
            yield _Message(part.at(seq), seq, tools_from(text), block_ref(*call))


def _read(state: CommitState, parts: Sequence[Span]) -> list[list[SqlRow]]:
    """For each part of the view: the messages in it that call tools or answer calls, in order."""
    queries = bounds([(part.lo, part.hi) for part in parts])
    return state.log.all([(_TOOLS, query) for query in queries])


def _links(messages: Sequence[_Message]) -> Links:
    return links_of((message.seq, message.answers) for message in messages)

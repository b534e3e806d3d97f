"""The caches of the fold: the spans and the cleared blocks of the present.

After a control row they are computed anew from the first row that it may change (0028), by the
function that computes them as a whole. `renew` writes the difference; nothing else changes them.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import asdict
from sqlalchemy import bindparam, delete, func, insert, literal_column, select

from roocontext.log.clearing import shown_by
from roocontext.log.draft import Draft
from roocontext.log.entries import Control, Range, subtract
from roocontext.log.spans import Span, clearings_of, first_changed, spans_of
from roocontext.store.engine.schema import clearings, entries, of_session, spans
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow
from roocontext.store.reading.head import SessionHead, read_with_head
from roocontext.store.reading.messages import ALL_CONTROLS, CONTROLS, to_controls
from roocontext.store.reading.totals import Total, add_rewound, to_totals, totals_of, totals_queries
from roocontext.store.writing.append import Receipt, write


class ClearedBlock(NamedTuple):
    """A block that a clearing clears, and how much of its head and tail stays."""

    seq: int
    block: int
    cleared_by: int
    placeholder: str
    head: int | None
    tail: int | None


SPANS = (
    select(*(spans.c[name] for name in Span.__struct_fields__))
    .where(of_session(spans))
    # By row, not by place in the view: they are compared with what `spans_of` returns.
    .order_by(spans.c.lo)
)
# The first row of the last span that begins before a row. The statement finds it by itself, so that
# spans and control rows need no round trip before them.
_SINCE = func.coalesce(
    select(func.max(spans.c.lo))
    .where(of_session(spans), spans.c.lo < bindparam("first"))
    .scalar_subquery(),
    literal_column("1"),
)
_LATER_SPANS = SPANS.where(spans.c.lo >= _SINCE)
_LATER_CONTROLS = ALL_CONTROLS.where(entries.c.seq >= _SINCE)
_DROP_SPAN = delete(spans).where(of_session(spans), spans.c.lo == bindparam("lo"))
_ADD_SPAN = insert(spans)
_CLEARINGS = select(*(clearings.c[name] for name in ClearedBlock._fields)).where(
    of_session(clearings)
)
_DROP_CLEARING = delete(clearings).where(
    of_session(clearings),
    clearings.c.seq == bindparam("seq"),
    clearings.c.block == bindparam("block"),
)
_ADD_CLEARING = insert(clearings)


class Caches(NamedTuple):
    """The rows of the tables for a session, or for the end of it."""

    spans: list[Span]
    clearings: set[ClearedBlock]


NONE = Caches([], set())
"""The caches of a new session."""


class Tail(NamedTuple):
    """The end of a session, from row `since` on: its control rows, and its spans as cached.

    The change that it was read for touches no earlier row. The clearings are those that the control
    rows make.
    """

    since: int
    last: int
    controls: list[Control]
    cached: Caches

    def spans(self) -> list[Span]:
        """The spans as they should be cached: no decision depends on a cache."""
        return spans_of(self.controls, self.last, self.since)

    def followed_by(self, new: Sequence[Control]) -> Caches:
        """The caches as they should be when these control rows are written."""
        return caches_of([*self.controls, *new], new[-1].seq, self.since)

    def ranges(self, spans_: Sequence[Span], *, rewound: bool = False) -> list[Range]:
        """The rows of the log in those of the spans that are visible, or rewound, ascending."""
        return [
            (span.lo, min(span.hi, self.last))
            for span in spans_
            if span.lo <= min(span.hi, self.last)
            and (span.rewound_by is not None if rewound else span.visible)
        ]


def read_present(log: SessionLog, seq: int) -> tuple[list[Control], Caches]:
    """The control rows up to the last seq, and the caches as they are."""
    controls, cached, cleared = log.all([(CONTROLS, {"seq": seq}), (SPANS, {}), (_CLEARINGS, {})])
    blocks = {ClearedBlock(*row) for row in cleared}
    return to_controls(controls), Caches([Span(*row) for row in cached], blocks)


def tail_queries(first: int) -> list[Query]:
    """The queries for the end of a session that a change from row `first` on may touch.

    Its spans begin with the one before that row.
    """
    params = {"first": first}
    return [(_LATER_SPANS, params), (_LATER_CONTROLS, params)]


def to_tail(first: int, last: int, cached: Sequence[SqlRow], controls: Sequence[SqlRow]) -> Tail:
    """The end that was asked for, of a session whose last entry is `last`."""
    spans_ = [Span(*row) for row in cached]
    # A damaged cache may have no span there; then everything is computed anew.
    since = spans_[0].lo if spans_ and 1 <= spans_[0].lo < first else 1
    rows = to_controls(controls, since)
    # Clearings are not read: the control rows of the end say which ones it makes, and a change of
    # the end cannot touch earlier ones.
    return Tail(since, last, rows, Caches(spans_, _cleared_by(rows, last)))


def read_tail(log: SessionLog, last: int, first: int) -> Tail:
    """The end of a session that a change from row `first` on may touch, up to its last entry."""
    return to_tail(first, last, *log.all(tail_queries(first)))


def read_with_tail(
    log: SessionLog, head: Query, first: int, others: Sequence[Query] = ()
) -> tuple[SessionHead, Tail, list[list[SqlRow]]]:
    """The head of a session, its end, and the rows of other queries, in one request."""
    read, (cached, controls, *more) = read_with_head(log, [*tail_queries(first), *others], head)
    return read, to_tail(first, read.last_seq, cached, controls), more


def reaching(log: SessionLog, tail: Tail, first: int) -> Tail:
    """This end of a session, or a longer one if a change from row `first` on may touch more."""
    if tail.since == 1 or first > tail.since:
        return tail
    return read_tail(log, tail.last, first)


def rewound_tail(log: SessionLog, tail: Tail, to: int) -> Tail:
    """This end of a session, or a longer one if a rewind to entry `to` may touch more."""
    while True:
        longer = reaching(log, tail, first_changed(tail.controls, tail.last, to))
        if longer is tail:
            return tail
        tail = longer


class Moved(NamedTuple):
    """The messages that leave the view and return into it, and what is rewound in addition."""

    left: int
    returned: int
    rewound: Total


def moved(
    log: SessionLog, tail: Tail, present: Caches, *, others: Sequence[Query] = ()
) -> tuple[Moved, list[list[SqlRow]]]:
    """The messages that a change of the caches moves, and the rows of other queries."""
    sides = [*_sides(tail, present, rewound=False), *_sides(tail, present, rewound=True)]
    totals = totals_queries(sides)
    rows = log.all([*totals, *others])
    left, returned, back, gone = to_totals(sides, rows[: len(totals)])
    return Moved(left.messages, returned.messages, gone - back), rows[len(totals) :]


def _sides(tail: Tail, present: Caches, *, rewound: bool) -> list[tuple[Range, ...]]:
    """The rows of the log that stop being visible, or rewound, and those that begin to be."""
    old, new = (tail.ranges(caches.spans, rewound=rewound) for caches in (tail.cached, present))
    return [subtract(old, new), subtract(new, old)]


Done = TypeVar("Done")


class Decided(NamedTuple, Generic[Done]):
    """The effects of an operation on a session, decided before anything is written.

    A dry run ends here. `done` is its answer, which has no hash yet. `drafts` are the control rows,
    none if nothing changes. `rewound` is what is rewound in addition, if that was counted already.
    """

    done: Done
    head: SessionHead
    drafts: Sequence[Draft]
    tail: Tail
    present: Caches
    rewound: Total | None = None


def write_decided(log: SessionLog, decision: Decided[Any]) -> list[Receipt]:
    """Write control rows to a locked session, and what they change in its caches."""
    _, head, drafts, tail, present, rewound = decision
    if rewound is None:
        back, gone = totals_of(log, _sides(tail, present, rewound=True))
        rewound = gone - back
    receipts = write(log, head, drafts)
    renew(log, tail.cached, present)
    if any(rewound):
        add_rewound(log, rewound)
    return receipts


def caches_of(controls: Sequence[Control], seq: int, since: int = 1) -> Caches:
    """The caches as they should be right after entry `seq`, from a span's first row on."""
    return Caches(spans_of(controls, seq, since), _cleared_by(controls, seq))


def renew(log: SessionLog, cached: Caches, present: Caches) -> int:
    """Write the difference between the caches as they are and as they should be; how many rows."""
    # The difference only: rewriting all spans would cost as much as the session had control rows.
    old, new = set(cached.spans), set(present.spans)
    gone, come = (sorted(side, key=attrgetter("lo")) for side in (old - new, new - old))
    lost = sorted(cached.clearings - present.clearings)
    won = sorted(present.clearings - cached.clearings)
    # Delete before insert: a span that changed has the same key before and after.
    log.many(_DROP_SPAN, [{"lo": span.lo} for span in gone])
    log.many(_ADD_SPAN, [asdict(span) for span in come])
    log.many(_DROP_CLEARING, [{"seq": row.seq, "block": row.block} for row in lost])
    log.many(_ADD_CLEARING, [row._asdict() for row in won])
    return len(gone) + len(come) + len(lost) + len(won)


def _cleared_by(controls: Sequence[Control], seq: int) -> set[ClearedBlock]:
    cleared = clearings_of(controls, seq)
    shown = shown_by(cleared)
    return {
        ClearedBlock(seq_, block, control.seq, *shown[seq_, block])
        for (seq_, block), control in cleared.items()
    }

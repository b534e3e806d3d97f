"""The caches of the fold: the spans and the cleared blocks of the present.

After a control row they are computed anew from the first row on that it may change (0028), by the
same function as the whole, and what differs is written by one function, `renew`; nothing updates
them in passing.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, func, insert, literal_column, select

from roocontext.log.clearing import shown_by
from roocontext.log.draft import Draft
from roocontext.log.entries import BlockRef, Control, Range, common, subtract
from roocontext.log.spans import Span, clearings_of, first_changed, spans_of, standing_ranges
from roocontext.store.engine.schema import clearings, entries, spans
from roocontext.store.engine.transaction import Query, SqlRow, Transaction
from roocontext.store.reading.head import SessionHead, to_head
from roocontext.store.reading.messages import ALL_CONTROLS, CONTROLS, to_controls
from roocontext.store.reading.totals import Total, add_rewound, to_totals, totals_of, totals_queries
from roocontext.store.writing.append import Receipt, write

ClearedBlock = tuple[int, int, int, str, int | None, int | None]
"""A seq, a block, the clearing's seq, the placeholder, how much of the head and the tail stays."""

_SPANS = (
    select(
        spans.c.lo,
        spans.c.hi,
        spans.c.position,
        spans.c.condense_parent,
        spans.c.truncation_parent,
        spans.c.rewound_by,
        spans.c.uncovered_by,
    )
    .where(spans.c.session_id == bindparam("session_id"))
    # By row, not by place in the view: they are compared with what `spans_of` returns.
    .order_by(spans.c.lo)
)
_SINCE = func.coalesce(
    select(func.max(spans.c.lo))
    .where(spans.c.session_id == bindparam("session_id"), spans.c.lo < bindparam("first"))
    .scalar_subquery(),
    literal_column("1"),
)
"""The first row of the last span that begins before a row."""
# The start is found by the statement itself, so that spans and control rows need no round trip
# before them.
_LATER_SPANS = _SPANS.where(spans.c.lo >= _SINCE)
_LATER_CONTROLS = ALL_CONTROLS.where(entries.c.seq >= _SINCE)
_DROP_SPAN = delete(spans).where(
    spans.c.session_id == bindparam("session_id"), spans.c.lo == bindparam("lo")
)
_ADD_SPAN = insert(spans)
_CLEARINGS = select(
    *(clearings.c.seq, clearings.c.block, clearings.c.cleared_by, clearings.c.placeholder),
    *(clearings.c.head, clearings.c.tail),
).where(clearings.c.session_id == bindparam("session_id"))
_DROP_CLEARING = delete(clearings).where(
    clearings.c.session_id == bindparam("session_id"),
    clearings.c.seq == bindparam("seq"),
    clearings.c.block == bindparam("block"),
)
_ADD_CLEARING = insert(clearings)


class Caches(NamedTuple):
    """What the tables hold of a session, or of the end of it."""

    spans: list[Span]
    clearings: set[ClearedBlock]


NONE = Caches([], set())
"""The caches of a new session."""


class Tail(NamedTuple):
    """The end of a session, from row `since` on: its control rows, and its spans as cached.

    No change that was asked about touches what is before. The clearings are those that the control
    rows make.
    """

    since: int
    last: int
    controls: list[Control]
    cached: Caches

    def spans(self) -> list[Span]:
        """The spans as they should be cached: what is decided never depends on a cache."""
        return spans_of(self.controls, self.last, self.since)

    def live(self) -> tuple[Range, ...]:
        """The rows of it that rewinds and uncoverings have left, ascending."""
        return common(standing_ranges(self.controls, self.last), [(self.since, self.last)])

    def followed_by(self, new: Sequence[Control]) -> Caches:
        """What the caches should hold of it when these control rows were written."""
        return caches_of([*self.controls, *new], new[-1].seq, self.since)

    def ranges(self, spans_: Sequence[Span], *, rewound: bool = False) -> list[Range]:
        """The rows of the log in those of the spans that are visible, or rewound, ascending."""
        return [
            (span.lo, min(span.hi, self.last))
            for span in spans_
            if span.lo <= min(span.hi, self.last)
            and (span.rewound_by is not None if rewound else span.visible)
        ]


def read_present(tx: Transaction, session_id: str, seq: int) -> tuple[list[Control], Caches]:
    """The control rows up to the last seq, and the caches as they are."""
    session = {"session_id": session_id}
    controls, cached, cleared = tx.all(
        [(CONTROLS, {**session, "seq": seq}), (_SPANS, session), (_CLEARINGS, session)]
    )
    return to_controls(controls), Caches(_spans(cached), _cleared(cleared))


def tail_queries(session_id: str, first: int) -> list[Query]:
    """What asks for the end of a session that a change from row `first` on may touch.

    Its spans begin with the one before that row.
    """
    asked = {"session_id": session_id, "first": first}
    return [(_LATER_SPANS, asked), (_LATER_CONTROLS, asked)]


def to_tail(first: int, last: int, cached: Sequence[SqlRow], controls: Sequence[SqlRow]) -> Tail:
    """The end that was asked for, of a session whose last entry is `last`."""
    spans_ = _spans(cached)
    # A damaged cache may have no span there; then everything is computed anew.
    since = spans_[0].lo if spans_ and 1 <= spans_[0].lo < first else 1
    # Clearings are not read: the control rows of the end say which ones it makes, and a change of
    # the end cannot touch earlier ones.
    tail = Tail(since, last, to_controls(controls, since), Caches(spans_, set()))
    return tail._replace(cached=Caches(spans_, _cleared_by(tail.controls, last)))


def read_tail(tx: Transaction, session_id: str, last: int, first: int) -> Tail:
    """The end of a session that a change from row `first` on may touch, up to its last entry."""
    return to_tail(first, last, *tx.all(tail_queries(session_id, first)))


def read_with_tail(
    tx: Transaction, session_id: str, head: Query, first: int, others: Sequence[Query] = ()
) -> tuple[SessionHead, Tail, list[list[SqlRow]]]:
    """The head of a session, its end, and the rows of other queries, in one request."""
    heads, cached, controls, *rows = tx.all([head, *tail_queries(session_id, first), *others])
    found = to_head(session_id, heads)
    return found, to_tail(first, found.last_seq, cached, controls), rows


def reaching(tx: Transaction, session_id: str, tail: Tail, first: int) -> Tail:
    """This end of a session, or a longer one if a change from row `first` on may touch more."""
    if tail.since == 1 or first > tail.since:
        return tail
    return read_tail(tx, session_id, tail.last, first)


def rewound_tail(tx: Transaction, session_id: str, tail: Tail, to: int) -> Tail:
    """This end of a session, or a longer one if a rewind to entry `to` may touch more."""
    while True:
        longer = reaching(tx, session_id, tail, first_changed(tail.controls, tail.last, to))
        if longer is tail:
            return tail
        tail = longer


class Moved(NamedTuple):
    """How many messages leave the view and return into it, and what more is rewound."""

    left: int
    returned: int
    rewound: Total


def moved(
    tx: Transaction,
    session_id: str,
    tail: Tail,
    present: Caches,
    *,
    others: Sequence[Query] = (),
) -> tuple[Moved, list[list[SqlRow]]]:
    """What a session's caches say of its messages when they are renewed.

    The rows of other queries that are asked for with it come with it.
    """
    sides = [*_sides(tail, present, rewound=False), *_sides(tail, present, rewound=True)]
    totals = totals_queries(session_id, sides)
    found = tx.all([*totals, *others])
    left, returned, back, gone = to_totals(sides, found[: len(totals)])
    return Moved(left.messages, returned.messages, gone - back), found[len(totals) :]


def _sides(tail: Tail, present: Caches, *, rewound: bool) -> list[tuple[Range, ...]]:
    """The rows of the log that stop being visible, or rewound, and those that begin to be."""
    old, new = (tail.ranges(caches.spans, rewound=rewound) for caches in (tail.cached, present))
    return [subtract(old, new), subtract(new, old)]


Done = TypeVar("Done")


class Decided(NamedTuple, Generic[Done]):
    """What an operation does to a session, decided before anything is written.

    A dry run ends here. `done` is its answer, which has no hash yet. `drafts` are the control rows,
    none if nothing changes. `rewound` is what more is rewound, where that has been counted.
    """

    done: Done
    head: SessionHead
    drafts: Sequence[Draft]
    tail: Tail
    present: Caches
    rewound: Total | None = None


def write_decided(tx: Transaction, session_id: str, decision: Decided[Any]) -> list[Receipt]:
    """Write control rows to a locked session, and what they change in its caches."""
    _, head, drafts, tail, present, rewound = decision
    if rewound is None:
        back, gone = totals_of(tx, session_id, _sides(tail, present, rewound=True))
        rewound = gone - back
    receipts = write(tx, session_id, head, drafts)
    renew(tx, session_id, tail.cached, present)
    if any(rewound):
        add_rewound(tx, session_id, rewound)
    return receipts


def caches_of(controls: Sequence[Control], seq: int, since: int = 1) -> Caches:
    """What the tables should hold of a session right after entry `seq`, from a span's row on."""
    return Caches(spans_of(controls, seq, since), _cleared_by(controls, seq))


def renew(tx: Transaction, session_id: str, cached: Caches, present: Caches) -> int:
    """Write the difference between the caches as they are and as they should be; how many rows."""
    # The difference only: rewriting all spans would cost as much as the session had control rows.
    old, new = set(cached.spans), set(present.spans)
    gone, come = sorted(old - new, key=_lo), sorted(new - old, key=_lo)
    # Delete before insert: a span that changed has the same key before and after.
    tx.many(_DROP_SPAN, [{"session_id": session_id, "lo": span.lo} for span in gone])
    tx.many(_ADD_SPAN, [_span_row(session_id, span) for span in come])
    lost = sorted(cached.clearings - present.clearings, key=_block)
    won = sorted(present.clearings - cached.clearings, key=_block)
    tx.many(_DROP_CLEARING, [_block_row(session_id, row) for row in lost])
    tx.many(_ADD_CLEARING, [_clearing_row(session_id, row) for row in won])
    return len(gone) + len(come) + len(lost) + len(won)


def _cleared_by(controls: Sequence[Control], seq: int) -> set[ClearedBlock]:
    return {
        (*block, control.seq, *shown_by(control, *block))
        for block, control in clearings_of(controls, seq).items()
    }


def _spans(rows: Sequence[SqlRow]) -> list[Span]:
    return [Span(*row) for row in rows]


def _cleared(rows: Sequence[SqlRow]) -> set[ClearedBlock]:
    return {(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows}


def _span_row(session_id: str, span: Span) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "lo": span.lo,
        "hi": span.hi,
        "position": span.position,
        "condense_parent": span.condense_parent,
        "truncation_parent": span.truncation_parent,
        "rewound_by": span.rewound_by,
        "uncovered_by": span.uncovered_by,
    }


def _lo(span: Span) -> int:
    return span.lo


def _block(row: ClearedBlock) -> BlockRef:
    return row[:2]


def _block_row(session_id: str, row: ClearedBlock) -> dict[str, Any]:
    return {"session_id": session_id, "seq": row[0], "block": row[1]}


def _clearing_row(session_id: str, row: ClearedBlock) -> dict[str, Any]:
    names = ("cleared_by", "placeholder", "head", "tail")
    return _block_row(session_id, row) | dict(zip(names, row[2:], strict=True))

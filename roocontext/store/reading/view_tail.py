"""Reading a view from its end: the newest messages, a page at a time, without those before them."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import bindparam, select, text

from roocontext.log.encoding import MAX_INTEGER
from roocontext.log.entries import Message, Range, View
from roocontext.log.moments import Point
from roocontext.log.spans import spans_of, visible_ranges
from roocontext.store.engine.schema import VISIBLE, clearings, entries, spans
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import read_head
from roocontext.store.reading.points_in_time import head_at, seq_at
from roocontext.store.reading.view import (
    SHOWN,
    Cleared,
    as_shown,
    bounds,
    cleared_at,
    holding,
    not_in_view,
    placeholders,
    read_controls,
    rows_to_messages,
)

SPANS_PAGE = 32

_SHOWN_LAST = SHOWN.order_by(None).order_by(entries.c.seq.desc()).limit(bindparam("page"))
_SPANS_BACK = (
    select(spans.c.lo, spans.c.hi, spans.c.position)
    .where(
        spans.c.session_id == bindparam("session_id"),
        text(VISIBLE),
        spans.c.position < bindparam("position"),
    )
    .order_by(spans.c.position.desc())
    .limit(bindparam("page"))
)
_SPAN_OF = (
    select(
        spans.c.position,
        spans.c.lo,
        spans.c.condense_parent,
        spans.c.truncation_parent,
        spans.c.rewound_by,
        spans.c.uncovered_by,
    )
    .where(spans.c.session_id == bindparam("session_id"), spans.c.lo <= bindparam("seq"))
    .order_by(spans.c.lo.desc())
    .limit(1)
)
# Of a page only what is in its ranges; of the whole view all at once, by a join.
_CLEARED_IN = select(
    *(clearings.c.seq, clearings.c.block),
    *(clearings.c.placeholder, clearings.c.head, clearings.c.tail),
).where(
    clearings.c.session_id == bindparam("session_id"),
    clearings.c.seq.between(bindparam("lo"), bindparam("hi")),
)


def read_newest(
    tx: Transaction,
    session_id: str,
    *,
    as_of: Point = None,
    before: int | None = None,
    last: int,
) -> View:
    """The `last` messages of the view, or of what precedes the message `before`."""
    cleared: Cleared | None = None
    if as_of is None:
        head = read_head(tx, session_id)
        seq, head_seq = head.last_seq, head.head_seq
        ranges = _backwards(tx, session_id, seq, before)
    else:
        seq = seq_at(tx, session_id, as_of)
        head_seq = head_at(tx, session_id, seq)
        controls = read_controls(tx, session_id, seq)
        whole = visible_ranges(spans_of(controls, seq), seq)
        ranges = iter(reversed(whole if before is None else _preceding(whole, before)))
        cleared = cleared_at(controls, seq)
    rows: list[SqlRow] = []
    used: list[Range] = []
    while len(rows) < last and (stretch := next(ranges, None)):
        lo, hi = stretch
        # One range after the other, because how many are needed shows only on the way.
        found = tx.rows(_SHOWN_LAST, session_id=session_id, lo=lo, hi=hi, page=last - len(rows))
        rows += found
        # The newest row comes first.
        used += [(found[-1][0], found[0][0])] if found else []
    if cleared is None:
        blocks = tx.each(_CLEARED_IN, bounds(session_id, used))
        cleared = placeholders(blocks)
    messages = as_shown(rows_to_messages(rows[::-1]), cleared)
    return View(session_id, seq, head_seq, tuple(messages), whole=False)


def _backwards(tx: Transaction, session_id: str, last: int, before: int | None) -> Iterator[Range]:
    """The ranges of the present view from its end, read as far as they are asked for."""
    position = MAX_INTEGER
    if before is not None:
        span = tx.row(_SPAN_OF, session_id=session_id, seq=before)
        if span is None or before > last or any(span[2:]):
            raise not_in_view(before)
        position, lo = span[:2]
        if lo < before:
            yield lo, before - 1
    # By pages: a view may have many spans, and usually only the last ones are needed.
    while rows := tx.rows(_SPANS_BACK, session_id=session_id, position=position, page=SPANS_PAGE):
        # A damaged span may reach out of the log: nothing outside is read.
        yield from ((max(lo, 1), min(hi, last)) for lo, hi, _ in rows if lo <= last)
        position = rows[-1][2]


def read_backwards(
    tx: Transaction, session_id: str, ranges: Iterable[Range], page: int
) -> Iterator[Message]:
    """The messages in these ranges, which descend, from the last one on: a page at a time."""
    for lo, hi in ranges:
        while rows := tx.rows(_SHOWN_LAST, session_id=session_id, lo=lo, hi=hi, page=page):
            yield from rows_to_messages(rows)
            if len(rows) < page:
                break
            hi = rows[-1][0] - 1  # noqa: PLW2901


def _preceding(ranges: Sequence[Range], before: int) -> list[Range]:
    index, (lo, _) = holding(ranges, before)
    rest = [(lo, before - 1)] if lo < before else []
    return [*ranges[:index], *rest]

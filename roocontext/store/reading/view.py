"""The view: what the model sees, now and at any past seq, whole or a part from either end.

A view is its visible spans in order, each read by its range of seq, all in one snapshot. The spans
of the present are in a table; those of the past are computed from the control rows. PostgreSQL
reads the whole present view with one statement, which is a snapshot by itself and saves two round
trips.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    text,
    true,
)

from roocontext.log.encoding import decode
from roocontext.log.entries import Control, Kind, Range, View
from roocontext.log.moments import Point
from roocontext.log.spans import compacted_at, spans_of, visible_ranges, within
from roocontext.store.engine.check_arguments import check_page
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.schema import (
    IS_HELD,
    LAST,
    VISIBLE,
    clearings,
    entries,
    of_session,
    sessions,
    spans,
)
from roocontext.store.engine.shapes import checked_rows
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow
from roocontext.store.reading.head import read_head, read_with_head
from roocontext.store.reading.messages import (
    IS_MESSAGE,
    SHOWN,
    SHOWN_LAST,
    SHOWN_PAGE,
    Cleared,
    bounds,
    cleared_at,
    compacted_in,
    placeholders,
    ranges_beside,
    read_controls,
    shown_messages,
)
from roocontext.store.reading.points_in_time import head_at, seq_at


class Part(NamedTuple):
    """A part of a view: at most `limit` messages from its start, or with `newest` from its end.

    If `next_to` is a message of the view, the part begins after it, or ends before it.
    """

    limit: int | None = None
    next_to: int | None = None
    newest: bool = False


WHOLE: Final = Part()


class UnreadView(NamedTuple):
    """A view before its rows are read: its moment, its ranges and the cleared blocks.

    `cleared` is None if it is to be read with the rows.
    """

    seq: int
    head_seq: int
    ranges: Sequence[Range]
    cleared: Cleared | None


class ShownRanges(NamedTuple):
    """The ranges of a view in view order, and what is cleared in them.

    `compacted` are the messages with a provider's compaction that is in effect, and the coverings.
    """

    ranges: Sequence[Range]
    cleared: Cleared
    compacted: Mapping[int, Control] = MappingProxyType({})

    def after(self, seq: int) -> "ShownRanges":
        """The part of the view that follows an entry."""
        # A damaged range stays, so that the sums refuse it.
        return self.within(
            [(max(lo, seq + 1), hi) for lo, hi in self.ranges if hi > seq or hi < lo]
        )

    def within(self, ranges: Sequence[Range]) -> "ShownRanges":
        """The part of the view in these ranges."""
        ascending = sorted(ranges)
        return ShownRanges(
            ranges,
            {row: blocks for row, blocks in self.cleared.items() if within(ascending, row)},
            {row: control for row, control in self.compacted.items() if within(ascending, row)},
        )


def to_part(after: int | None, limit: int | None, before: int | None, last: int | None) -> Part:
    """The part that these arguments name."""
    check_page(after, limit, before, last)
    return Part(limit, after) if last is None else Part(last, before, newest=True)


_is_visible = and_(of_session(spans), text(VISIBLE))
_is_cleared = of_session(clearings)

VISIBLE_SPANS = (
    select(spans.c.lo, spans.c.hi, spans.c.position).where(_is_visible).order_by(spans.c.position)
)

_blocks = select(
    *(clearings.c.seq, clearings.c.block),
    *(clearings.c.placeholder, clearings.c.head, clearings.c.tail),
)
_CLEARED = _blocks.select_from(
    spans.join(clearings, and_(_is_cleared, clearings.c.seq.between(spans.c.lo, spans.c.hi)))
).where(_is_visible)
# Whether a compaction in the view may be in effect. A covering comes right after its compaction, so
# only the control rows in the view and right after its spans are looked at, and none of those that
# are hidden. It is a scalar subquery, because SQLite would begin a join with all control rows.
_ONE = literal_column("1", Integer)
_covering_after = (
    select(entries.c.seq)
    .where(
        of_session(entries),
        entries.c.seq.between(spans.c.lo + _ONE, spans.c.hi + _ONE),
        entries.c.details.is_not(None),
        text(f"kind = '{Kind.COVERING}'"),
    )
    .order_by(entries.c.seq)
    .limit(_ONE)
    .correlate(spans)
    .scalar_subquery()
)
COVERING = select(spans.c.lo).where(_is_visible, _covering_after.is_not(None)).limit(_ONE)
# For a part of the view. The join above is for a whole view.
_CLEARED_IN = _blocks.where(_is_cleared, clearings.c.seq.between(bindparam("lo"), bindparam("hi")))


def view_now(database: SessionDatabase) -> View:
    """Read the whole view as it is now."""
    # One statement needs no transaction, whose end would be a round trip.
    run = database.lookup if database.has_round_trips else database.snapshot
    return run(read_view)


def read_view(log: SessionLog, *, as_of: Point = None, part: Part = WHOLE) -> View:
    """Read the view, or a part of it, now or at a point in time."""
    is_whole_now = as_of is None and part == WHOLE
    if is_whole_now and log.tx.has_round_trips:
        return _at_once(log)
    unread = _present(log, part) if as_of is None else _past(log, as_of)
    if is_whole_now:
        # On SQLite, where a statement for each of many spans takes longer. The spans are read as
        # well, to be checked: the join would skip a damaged one (0020).
        return _shown(log, unread, part, log.rows(_ROWS_OF_SPANS), unread.ranges)
    return _read_part(log, unread, part)


def read_first_page(log: SessionLog, size: int, as_of: Point) -> tuple[UnreadView, View]:
    """Read the first messages of a view, now or at a point in time, and what names the others."""
    unread = _present(log, WHOLE) if as_of is None else _past(log, as_of)
    return unread, _read_part(log, unread, Part(size))


def read_next_page(log: SessionLog, unread: UnreadView, part: Part) -> View:
    """Read a later page. Its spans and blocks are those of the first: no entry changes them."""
    read_head(log)  # which raises the reason if the session is gone
    return _read_part(log, unread, part)


def visible_now(log: SessionLog, last: int) -> ShownRanges:
    """Read the ranges of the present view, from the cached spans."""
    spans_, covering = log.all([(VISIBLE_SPANS, {}), (COVERING, {})])
    return visible_by(log, last, spans_, has_cleared=True, has_coverings=bool(covering))


def visible_by(
    log: SessionLog, last: int, spans_: Sequence[SqlRow], *, has_cleared: bool, has_coverings: bool
) -> ShownRanges:
    """Make the same of spans that were read, and read only what the view has."""
    blocks = log.rows(_CLEARED) if has_cleared else []
    compacted = compacted_at(read_controls(log, last), last) if has_coverings else {}
    ranges = _ranges_within(spans_, last)
    return ShownRanges((), _cleared_within(blocks, last), compacted).within(ranges)


def visible_ranges_now(log: SessionLog, last: int) -> list[Range]:
    """Read the ranges alone."""
    return _ranges_within(log.rows(VISIBLE_SPANS), last)


def shown_after(controls: Sequence[Control], seq: int) -> ShownRanges:
    """Compute the ranges of the view right after entry `seq`, from the control rows up to there."""
    ranges = visible_ranges(spans_of(controls, seq), seq)
    return ShownRanges((), cleared_at(controls, seq), compacted_at(controls, seq)).within(ranges)


def _past(log: SessionLog, as_of: Point) -> UnreadView:
    seq = seq_at(log, as_of)
    head_seq = head_at(log, seq)
    ranges, cleared, _ = shown_after(read_controls(log, seq), seq)
    return UnreadView(seq, head_seq, ranges, cleared)


def _present(log: SessionLog, part: Part) -> UnreadView:
    all_blocks: list[Query] = [(_CLEARED, {})] if part.limit is None else []
    head, (rows, *blocks) = read_with_head(log, [(VISIBLE_SPANS, {}), *all_blocks])
    cleared = _cleared_within(blocks[0], head.last_seq) if blocks else None
    return UnreadView(head.last_seq, head.head_seq, _ranges_within(rows, head.last_seq), cleared)


# Bounded, as every read of a log is (0020).


def _ranges_within(spans_: Sequence[SqlRow], last: int) -> list[Range]:
    return [(max(lo, 1), min(hi, last)) for lo, hi, _ in spans_ if lo <= last]


def _cleared_within(blocks: Sequence[SqlRow], last: int) -> Cleared:
    return placeholders(row for row in blocks if 1 <= row[0] <= last)


def _read_part(log: SessionLog, unread: UnreadView, part: Part) -> View:
    rows, read = _rows(log, _following(unread.ranges, part), part)
    return _shown(log, unread, part, rows, read)


def _shown(
    log: SessionLog, unread: UnreadView, part: Part, rows: Sequence[SqlRow], read: Sequence[Range]
) -> View:
    """Make the view of the rows that were read in these ranges."""
    cleared = unread.cleared
    if cleared is None:
        cleared = placeholders(log.each(_CLEARED_IN, bounds(read)))
    compacted = compacted_in(log, unread.seq, rows)
    ordered = rows[::-1] if part.newest else rows
    messages = shown_messages(ordered, cleared, compacted)
    return View(log.session_id, unread.seq, unread.head_seq, tuple(messages), part == WHOLE)


def _following(ranges: Sequence[Range], part: Part) -> Sequence[Range]:
    """The ranges in the direction of the part, from the message that the part is next to."""
    if part.next_to is not None:
        ranges = ranges_beside(ranges, part.next_to, before=part.newest)
    return ranges[::-1] if part.newest else ranges


def _rows(log: SessionLog, ranges: Sequence[Range], part: Part) -> tuple[list[SqlRow], list[Range]]:
    """Read the rows in these ranges, as many as the part has, and the ranges that they fill."""
    if part.limit is None:
        return log.each(SHOWN, bounds(ranges)), [*ranges]
    rows: list[SqlRow] = []
    read = []
    statement = SHOWN_LAST if part.newest else SHOWN_PAGE
    # One range after the other, because how many are needed shows only on the way.
    for lo, hi in ranges:
        page = log.rows(statement, lo=lo, hi=hi, page=part.limit - len(rows))
        rows += page
        if page:
            read.append((min(page[0][0], page[-1][0]), max(page[0][0], page[-1][0])))
        if len(rows) >= part.limit:
            break
    return rows, read


_ROWS_OF_SPANS = (
    select(*SHOWN.selected_columns)
    .select_from(
        spans.join(
            entries,
            and_(
                of_session(entries),
                entries.c.seq.between(func.max(spans.c.lo, 1), func.min(spans.c.hi, LAST)),
                IS_MESSAGE,
            ),
        )
    )
    .where(_is_visible)
    # With the rowid it is the order of both indexes, so that nothing is sorted.
    .order_by(spans.c.position, literal_column("spans.rowid"), entries.c.seq)
)

# PostgreSQL

_COLUMNS = SHOWN.selected_columns
_SPAN_COLUMNS = VISIBLE_SPANS.selected_columns


def _whole_view() -> Select[Any]:
    """Make the statement for the rows of all visible spans, with their cleared blocks and the head.

    A span without messages is a row of NULLs, so that a session has a row even if its view is
    empty. The head is NULL if the session was purged or archived.
    """
    head_seq = case((IS_HELD, sessions.c.head_seq)).label("head_seq")
    span = (
        select(spans.c.lo, spans.c.hi, spans.c.position, sessions.c.last_seq, head_seq)
        .select_from(sessions.outerjoin(spans, _is_visible))
        .where(of_session(sessions))
        .order_by(spans.c.position)
        .subquery("span")
    )
    # LATERAL, and in order: the server keeps the order of the spans and of the rows in each. For a
    # plain join it would read the whole log, and sort it.
    visible = (
        select(*_COLUMNS)
        .where(
            of_session(entries),
            entries.c.seq.between(span.c.lo, span.c.hi),
            entries.c.seq.between(literal_column("1"), span.c.last_seq),
            IS_MESSAGE,
        )
        .order_by(entries.c.seq)
        .lateral("shown")
    )
    # Whether there are any is asked once, and not for each row. It is asked for the first one: for
    # EXISTS the server would read the clearings of all sessions, as it hopes to find one soon.
    first = select(clearings.c.seq).where(_is_cleared).order_by(clearings.c.seq).limit(1)
    block = func.json_build_array(
        *(clearings.c.block, clearings.c.placeholder, clearings.c.head, clearings.c.tail)
    )
    # As text: an application may have changed what its psycopg makes of JSON.
    blocks = select(cast(func.json_agg(block), Text)).where(
        _is_cleared, clearings.c.seq == visible.c.seq
    )
    cleared = case((first.scalar_subquery().is_not(None), blocks.scalar_subquery()))
    return (
        select(
            *(column.label(column.name) for column in visible.c),
            cleared.label("cleared"),
            *(span.c[name].label(name) for name in ("last_seq", "head_seq")),
            func.num_nulls(*(span.c[column.name] for column in _SPAN_COLUMNS)).label("nulls"),
        )
        .select_from(span.outerjoin(visible, true()))
        .order_by(span.c.position)
    )


_WHOLE_VIEW = _whole_view()
_SHOWN = slice(len(_COLUMNS))
_CLEARED_AT = len(_COLUMNS)
_HEAD = slice(_CLEARED_AT + 1, _CLEARED_AT + 3)
_NULLS_AT = _CLEARED_AT + 3
_NULLS = {0, len(_SPAN_COLUMNS)}
"""How many columns of a span are NULL: none, or all in the row of a view without spans."""


def _at_once(log: SessionLog) -> View:
    while not _is_whole(rows := log.rows(_WHOLE_VIEW)):
        # These raise the reason, unless the session was created or rebuilt in between.
        read_head(log)
        log.rows(VISIBLE_SPANS)
    present = [row for row in rows if row[0] is not None]
    blocks = [
        (row[0], *block)
        for row in present
        if row[_CLEARED_AT] is not None
        for block in decode(row[_CLEARED_AT])
    ]
    cleared = placeholders(checked_rows(_CLEARED, blocks))
    last_seq, head_seq = rows[0][_HEAD]
    own = checked_rows(SHOWN, [row[_SHOWN] for row in present])
    compacted = compacted_in(log, last_seq, own)
    messages = shown_messages(own, cleared, compacted)
    return View(log.session_id, last_seq, head_seq, tuple(messages))


def _is_whole(rows: Sequence[SqlRow]) -> bool:
    """Return True if the rows have a head, and none of their spans is damaged."""
    return bool(rows) and None not in rows[0][_HEAD] and {row[_NULLS_AT] for row in rows} <= _NULLS

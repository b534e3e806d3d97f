"""Finds a moment in a log: by bisection if its times never went back, else by reading them."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, and_, bindparam, case, cast, func, select, text, update
from sqlalchemy.sql import ClauseElement, ColumnElement

from roocontext.log.entries import Range
from roocontext.log.spans import within
from roocontext.log.times import Times
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.transaction import Query, Transaction
from roocontext.store.head import SessionHead
from roocontext.store.schema import IN_LOG, UP_TO_SEQ, entries, sessions, spans

TimedRow = tuple[int, int | None, int]
"""A message's seq, its `ts`, and when it was recorded."""

_in_session = entries.c.session_id == bindparam("session_id")
_between = entries.c.seq.between(bindparam("lo"), bindparam("hi"))
_is_message = text("role IS NOT NULL")
_is_appended = text("kind = 'message'")
_own = func.coalesce(entries.c.ts, entries.c.recorded_at)
_timed = select(entries.c.seq, entries.c.ts, entries.c.recorded_at).where(_in_session, _is_message)


def _halving(
    time_at: Callable[[ColumnElement[int], ColumnElement[int]], ColumnElement[int]], near: int = 0
) -> ClauseElement:
    """The last seq whose time is at most `time`, given how to read the time at a seq.

    With `near`, it is first looked for among so many entries at the end. All steps are one
    statement: on PostgreSQL each statement is a round trip.
    """
    last = cast(sessions.c.last_seq, BigInteger)
    in_session = sessions.c.session_id == bindparam("session_id")
    width: ColumnElement[int] = last
    first: ColumnElement[int] = cast(0, BigInteger)
    if near:
        is_near = and_(last > near, time_at(last - near, last) <= bindparam("time"))
        width = case((is_near, cast(near, BigInteger)), else_=last)
        first = case((is_near, last - near), else_=first)
    found = (
        select(last.label("last"), width.label("step"), first.label("seq"))
        .where(in_session)
        .cte("found", recursive=True)
    )
    step, probed = found.c.step, found.c.seq + found.c.step
    at = time_at(probed, found.c.last)
    nearer = case((at <= bindparam("time"), probed), else_=found.c.seq)
    shorter = case((step > 1, step - step.op("/")(2)), else_=0)
    steps = select(found.c.last, shorter, nearer).where(step > 0)
    return select(func.max(found.union_all(steps).c.seq))


_LAST_RECORDED_BY_HALVING = _halving(
    lambda seq, last: (
        select(entries.c.recorded_at)
        .where(_in_session, entries.c.seq == seq, entries.c.seq <= last)
        .scalar_subquery()
    )
)
_LAST_RECORDED = (
    select(entries.c.seq)
    .where(_in_session, IN_LOG, entries.c.recorded_at <= bindparam("time"))
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_LAST_APPENDED_BY_HALVING = _halving(
    lambda seq, last: (
        select(_own)
        .where(_in_session, entries.c.seq.between(seq, last), _is_appended)
        .order_by(entries.c.seq)
        .limit(1)
        .scalar_subquery()
    ),
    near=256,  # most rewinds go back a little
)
_FIRST_LATER = _timed.where(_between, _own > bindparam("time")).order_by(entries.c.seq).limit(1)
_LATER_INSERTED = _timed.where(
    entries.c.details.is_not(None), _between, _own > bindparam("time")
).order_by(entries.c.seq)
_LAST_MESSAGE = _timed.where(_between).order_by(entries.c.seq.desc()).limit(1)
_LAST_WITH_TOTALS = _LAST_MESSAGE.add_columns(entries.c.messages_total, entries.c.bytes_total)
_AT_TS = _timed.where(entries.c.ts.is_not(None), entries.c.ts == bindparam("time")).order_by(
    entries.c.seq
)
_is_live = (
    select(func.coalesce(spans.c.rewound_by, spans.c.uncovered_by))
    .where(spans.c.session_id == entries.c.session_id, spans.c.lo <= entries.c.seq)
    .order_by(spans.c.lo.desc())
    .limit(1)
    .scalar_subquery()
    .is_(None)
)
_live_with_ts = _timed.where(entries.c.ts.is_not(None), IN_LOG, _is_live).limit(2)
_NEAREST_TS = (
    _live_with_ts.where(entries.c.ts < bindparam("time")).order_by(
        entries.c.ts.desc(), entries.c.seq
    ),
    _live_with_ts.where(entries.c.ts > bindparam("time")).order_by(entries.c.ts, entries.c.seq),
)


# An empty range, so that three queries can always be sent together.
_NOWHERE = {"lo": 1, "hi": 0}


def _latest_before(time: ColumnElement[int]) -> ColumnElement[int]:
    return func.max(time).over(order_by=entries.c.seq, rows=(None, -1))


_appended_own = case((_is_appended, _own))
_each = (
    select(
        entries.c.recorded_at.label("recorded"),
        _latest_before(entries.c.recorded_at).label("recorded_before"),
        _appended_own.label("own"),
        _latest_before(_appended_own).label("own_before"),
    )
    .where(_in_session, UP_TO_SEQ)
    .subquery()
)
_TIMES = select(
    func.max(_each.c.recorded),
    func.sum(case((_each.c.recorded < func.coalesce(_each.c.recorded_before, 0), 1), else_=0)),
    func.max(_each.c.own),
    func.sum(case((_each.c.own < func.coalesce(_each.c.own_before, 0), 1), else_=0)),
)
_RENEW = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in Times._fields})
)


def read_times(tx: Transaction, session_id: str, seq: int) -> Times:
    """What `Times` says of a log up to a seq, from the log itself."""
    row = tx.row(_TIMES, session_id=session_id, seq=seq) or (None,) * 4
    recorded, recorded_back, own, own_back = (whole_number(value or 0) for value in row)
    return Times(max(recorded, 0), recorded_back, max(own, 0), own_back)


def renew_times(tx: Transaction, session_id: str, head: SessionHead) -> int:
    """Write what `Times` should say of a locked session; 1 if that was wrong, else 0."""
    found = read_times(tx, session_id, head.last_seq)
    if found == head.times:
        return 0
    return tx.run(_RENEW, of=session_id, **{f"new_{k}": v for k, v in found._asdict().items()})


def last_recorded(tx: Transaction, session_id: str, head: SessionHead, time: int) -> int:
    """The last entry that was recorded at this time or before it; 0 if there is none."""
    if head.times.recorded_back:
        row = tx.row(_LAST_RECORDED, session_id=session_id, time=time)
    else:
        row = tx.row(_LAST_RECORDED_BY_HALVING, session_id=session_id, time=time)
    return row[0] if row else 0


def last_appended(session_id: str, time: int) -> Query:
    """What asks for a seq up to which no appended message is later, if none went back in time."""
    return _LAST_APPENDED_BY_HALVING, {"session_id": session_id, "time": time}


def beside(session_id: str, time: int, start: int, last: int) -> list[Query]:
    """What asks for the messages beside the place where later ones begin, live or not.

    First those before `start` that a plan inserted and that are later, then the first later one
    from `start` on, then the last one before it with its running totals.
    """
    own = {"session_id": session_id}
    return [
        (_LATER_INSERTED, {**own, "lo": 1, "hi": start - 1, "time": time}),
        (_FIRST_LATER, {**own, "lo": start, "hi": last, "time": time}),
        (_LAST_WITH_TOTALS, {**own, "lo": 1, "hi": start - 1}),
    ]


def first_later(
    tx: Transaction, session_id: str, live: Sequence[Range], *, time: int, start: int
) -> tuple[TimedRow | None, TimedRow | None]:
    """The first live message, by seq, whose own time is later; and the last one before `start`.

    Before `start` only a row that a plan inserted may be later.
    """
    own = {"session_id": session_id}
    later = [{"lo": max(lo, start), "hi": hi} for lo, hi in live if hi >= start] or [_NOWHERE]
    before = [{"lo": lo, "hi": min(hi, start - 1)} for lo, hi in live if lo < start] or [_NOWHERE]
    inserted, first, last = tx.all(
        [
            (_LATER_INSERTED, {**own, "lo": 1, "hi": start - 1, "time": time}),
            (_FIRST_LATER, {**own, **later[0], "time": time}),
            (_LAST_MESSAGE, {**own, **before[-1]}),
        ]
    )
    found = next((row for row in [*inserted, *first] if within(live, row[0])), None)
    for stretch in later[1:]:
        found = found or tx.row(_FIRST_LATER, **own, **stretch, time=time)
    return found and _timed_row(found), _timed_row(last[0]) if last else None


def last_message(
    tx: Transaction, session_id: str, live: Sequence[Range], before: int
) -> TimedRow | None:
    """The last live message, by seq, before an entry."""
    for lo, hi in reversed(live):
        if lo < before:
            row = tx.row(_LAST_MESSAGE, session_id=session_id, lo=lo, hi=min(hi, before - 1))
            if row:
                return _timed_row(row)
    return None


def at_ts(session_id: str, ts: int) -> Query:
    """What asks for the messages whose `ts` is exactly this, by seq."""
    return _AT_TS, {"session_id": session_id, "time": ts}


def nearest(tx: Transaction, session_id: str, ts: int) -> list[tuple[int, int]]:
    """The two live messages whose `ts` is nearest to this one: seq and `ts`."""
    near = [
        (row[0], row[1])
        for statement in _NEAREST_TS
        for row in tx.rows(statement, session_id=session_id, time=ts)
    ]
    return sorted(near, key=lambda one: (abs(one[1] - ts), one[0]))[:2]


def _timed_row(row: tuple[Any, ...]) -> TimedRow:
    return row[0], row[1], row[2]

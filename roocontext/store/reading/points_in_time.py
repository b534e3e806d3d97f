"""Points in time: the seq that a seq or a datetime names, and the head of a session at a seq.

A moment is found by one bisection, by either of two clocks: when things happened, or were recorded.
Each entry has the latest time at which a message or control row happened so far, which never goes
back. Times of recording may go back: once they did in a session, they are read in order of `seq`. A
rewind asks for live entries only; the bisection tells it where to begin its scan.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, func, select, text

from roocontext.errors import MessageNotFound
from roocontext.log.entries import Range
from roocontext.log.moments import Moment, Point
from roocontext.log.times import Times
from roocontext.store.engine.schema import (
    AT_SEQ,
    HAPPENED,
    IN_LOG,
    IN_RANGE,
    UP_TO_SEQ,
    entries,
    log_rows,
    of_session,
    span_around,
    spans,
)
from roocontext.store.engine.transaction import Query, SessionLog
from roocontext.store.reading.head import SessionHead, read_head
from roocontext.store.reading.messages import IS_MESSAGE

TimedRow = tuple[int, int]
"""The seq of an entry, and its time by one of the clocks."""

IS_FOLDED = text("kind <> 'note'")

_PAGE = 10_000
_in_session = of_session(entries)
_PROBES: Final = 8
_SEQS = tuple(f"seq_{number}" for number in range(_PROBES))
_TIMES = log_rows("seq", "latest_happened", "recorded_at").where(
    entries.c.seq.in_(map(bindparam, _SEQS))
)
_newest = log_rows("seq").order_by(entries.c.seq.desc()).limit(1)
_HEAD_AT = _newest.where(UP_TO_SEQ, IS_FOLDED)
_CLOCKS = (HAPPENED, entries.c.recorded_at)
"""The clock of a moment, by whether it is of recording."""
_FIRST_LATER = [
    select(entries.c.seq, time)
    .where(_in_session, IN_RANGE, IS_FOLDED, time > bindparam("time"))
    .order_by(entries.c.seq)
    .limit(1)
    for time in _CLOCKS
]
_LAST_MESSAGE = [
    select(entries.c.seq, time)
    .where(_in_session, IN_RANGE, IS_MESSAGE)
    .order_by(entries.c.seq.desc())
    .limit(1)
    for time in _CLOCKS
]
_LAST_RECORDED = _newest.where(IN_LOG, entries.c.recorded_at <= bindparam("time"))
_AT_TS = (
    log_rows("seq", "ts")
    .where(IS_MESSAGE, entries.c.ts.is_not(None), entries.c.ts == bindparam("time"))
    .order_by(entries.c.seq)
)
_is_live = (
    span_around(func.coalesce(spans.c.rewound_by, spans.c.uncovered_by), seq=entries.c.seq)
    .scalar_subquery()
    .is_(None)
)
_live_with_ts = (
    log_rows("seq", "ts").where(IS_MESSAGE, entries.c.ts.is_not(None), IN_LOG, _is_live).limit(2)
)
_NEAREST_TS = (
    _live_with_ts.where(entries.c.ts < bindparam("time")).order_by(
        entries.c.ts.desc(), entries.c.seq
    ),
    _live_with_ts.where(entries.c.ts > bindparam("time")).order_by(entries.c.ts, entries.c.seq),
)
_TIMED = (
    log_rows("seq", "kind", "note", "ts", "recorded_at")
    .where(UP_TO_SEQ, entries.c.seq > bindparam("after"))
    .order_by(entries.c.seq)
    .limit(_PAGE)
)
_LATEST = log_rows("recorded_at", "latest_happened").where(AT_SEQ)


def seq_at(log: SessionLog, as_of: Point) -> int:
    """Find the seq that a point in time names; None is now."""
    head = read_head(log)
    if as_of is None:
        return head.last_seq
    if isinstance(as_of, Moment):
        return last_at(log, head, as_of)
    if not 0 <= as_of <= head.last_seq:
        raise no_entry(as_of, head.last_seq)
    return as_of


def no_entry(seq: int, last: int) -> MessageNotFound:
    """The error for an entry that is not in a log of so many entries."""
    holds = f"the log holds 1 to {last}" if last else "the log has no entry yet"
    return MessageNotFound(f"Entry {seq} does not exist: {holds}.", candidates=(0, last))


def head_at(log: SessionLog, seq: int) -> int:
    """Find the last fold entry up to a seq."""
    row = log.row(_HEAD_AT, seq=seq)
    return row[0] if row else 0


def last_at(log: SessionLog, head: SessionHead, moment: Moment) -> int:
    """Find the entry that a moment comes right after; 0 if it comes before all.

    It is the entry right before the first message or control row that happened later or, by the
    clock of the store, the last entry that was recorded by then.
    """
    if moment.recorded and head.times.recorded_back:
        row = log.row(_LAST_RECORDED, time=moment.time)
        return row[0] if row else 0
    return none_later(log, head, moment)


def none_later(log: SessionLog, head: SessionHead, moment: Moment) -> int:
    """Find the last entry such that no entry up to it is later; 0 if only a scan would find it."""
    if moment.recorded and head.times.recorded_back:
        return 0
    low, high = 0, head.last_seq
    while low < high:
        # Several entries at once, because each statement is a round trip on PostgreSQL.
        step = -(-(high - low) // _PROBES)
        probes = range(high, low, -step)
        seqs = dict.fromkeys(_SEQS, high) | dict(zip(_SEQS, probes, strict=False))
        times = {
            seq: recorded_at if moment.recorded else happened_at
            for seq, happened_at, recorded_at in log.rows(_TIMES, **seqs)
        }
        for seq in probes:
            # Until there is a time, none is later than any.
            if seq in times and (times[seq] is None or times[seq] <= moment.time):
                low = seq
                break
            high = seq - 1
    return low


def first_later(
    log: SessionLog, live: Sequence[Range], moment: Moment, *, start: int
) -> TimedRow | None:
    """Find the first live entry, by seq, that is later. There is none before `start`."""
    asked = {"time": moment.time}
    for lo, hi in live:
        if hi >= start:
            row = log.row(_FIRST_LATER[moment.recorded], **asked, lo=max(lo, start), hi=hi)
            if row:
                return row[0], row[1]
    return None


def last_message(
    log: SessionLog, live: Sequence[Range], moment: Moment, before: int
) -> TimedRow | None:
    """Find the last live message, by seq, before an entry."""
    for lo, hi in reversed(live):
        if lo < before:
            asked = {"lo": lo, "hi": min(hi, before - 1)}
            row = log.row(_LAST_MESSAGE[moment.recorded], **asked)
            if row:
                return row[0], row[1]
    return None


def at_ts(ts: int) -> Query:
    """The query for the messages whose `ts` is exactly this, by seq."""
    return _AT_TS, {"time": ts}


def nearest(log: SessionLog, ts: int) -> list[tuple[int, int]]:
    """Find the two live messages whose `ts` is nearest to this one: seq and `ts`."""
    near = [(row[0], row[1]) for statement in _NEAREST_TS for row in log.rows(statement, time=ts)]
    return sorted(near, key=lambda row: (abs(row[1] - ts), row[0]))[:2]


def times_at(log: SessionLog, origin: SessionHead, seq: int) -> Times:
    """Find the times with which a fork at an entry begins, before its own entries."""
    if origin.times.recorded_back:
        return read_times(log, seq)
    recorded, happened = log.row(_LATEST, seq=seq) or (None, None)
    return Times(recorded, 0, happened)


def read_times(log: SessionLog, seq: int) -> Times:
    """Compute the times of a log up to a seq from the log itself."""
    times, after = Times(), 0
    while rows := log.rows(_TIMED, seq=seq, after=after):
        for _, kind, note, ts, recorded_at in rows:
            times = times.after(kind, note, ts, recorded_at)
        after = rows[-1][0]
    return times

"""The caches of a log: whether they agree with it, and how they are computed anew.

Spans, clearings, title and metadata are functions of the log, and are compared with it. Counts are
numbers that only their counter knows: of these, the messages that they belong to are checked.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from sqlalchemy import bindparam, delete, null, or_, select, true, tuple_, update

from roocontext.errors import HistoryCorrupt
from roocontext.log.times import Times
from roocontext.store.engine.schema import (
    UP_TO_SEQ,
    RecordingMinute,
    clearings,
    counts,
    entries,
    log_rows,
    of_session,
    sessions,
    spans,
)
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import MINUTES, SessionHead, lock
from roocontext.store.reading.messages import IS_MESSAGE, read_controls
from roocontext.store.reading.points_in_time import read_times
from roocontext.store.reading.totals import rewound_sum
from roocontext.store.writing.caches import NONE, caches_of, read_present, renew
from roocontext.store.writing.shown import refresh_shown, shown_problem

_PAGE = 10_000
_SESSION = select(*sessions.columns).where(of_session(sessions))
_NAMES = tuple(sessions.columns.keys())
_PLACE = ("listed_at", *MINUTES)
_REWOUND = ("rewound_messages", "rewound_bytes")
_CACHED = (*_REWOUND, *Times._fields, *_PLACE)
"""The columns of the session's row, besides its head, that are computed from its log."""
_NUMBERS = select(*(sessions.c[name] for name in (*_CACHED, "unindexed", "changed_minute"))).where(
    of_session(sessions)
)
_RENEW = (
    update(sessions)
    .where(of_session(sessions))
    .values({name: bindparam(f"new_{name}") for name in _CACHED})
)
_FORGET = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        {
            **{name: null() if sessions.c[name].nullable else 0 for name in _CACHED},
            "unindexed": true(),
            "changed_minute": RecordingMinute(),
        }
    )
)
_COUNTS = (
    select(*counts.columns)
    .where(
        of_session(counts),
        tuple_(counts.c.variant, counts.c.counter, counts.c.seq)
        > tuple_(bindparam("variant"), bindparam("counter"), bindparam("seq")),
    )
    .order_by(counts.c.variant, counts.c.counter, counts.c.seq)
    .limit(bindparam("page"))
)
_MESSAGES = log_rows("seq").where(IS_MESSAGE)
_MESSAGES_UP_TO = _MESSAGES.where(UP_TO_SEQ)
_DROP_SPANS = delete(spans).where(of_session(spans))
_DROP_CLEARINGS = delete(clearings).where(of_session(clearings))
_DROP_COUNTS = delete(counts).where(of_session(counts))
_is_counted = _MESSAGES.where(entries.c.seq == counts.c.seq)
_DROP_STRAY_COUNTS = _DROP_COUNTS.where(
    or_(counts.c.tokens < 0, counts.c.seq < 1, ~_is_counted.exists())
)


def problem_of(log: SessionLog, head: SessionHead, is_message: Callable[[int], bool]) -> str | None:
    """The first cache that is not that of a log with this head, if any is not."""
    try:
        return next(_problems(log, head, is_message), None)
    except HistoryCorrupt as damage:
        return damage.fact.rstrip(".")


def _problems(
    log: SessionLog, head: SessionHead, is_message: Callable[[int], bool]
) -> Iterator[str]:
    last = head.last_seq
    stored = log.row(_SESSION)
    assert stored is not None
    row = dict(zip(_NAMES, stored, strict=True))
    if row["receipt"] is not None:
        yield "the session has the receipt of a purge"
    if any(row[name] is not None for name in ("archived_at", "archive", "first_hash")):
        yield "the session has a tombstone"
    if shown := shown_problem(log, last):
        yield shown
    controls, cached = read_present(log, last)
    present = caches_of(controls, last)
    if cached.spans != present.spans:
        yield "the spans are not those of the log"
    if cached.clearings != present.clearings:
        yield "the clearings are not those of the log"
    right = _columns(log, head)
    if any(row[name] != right[name] for name in _PLACE):
        yield "listed_at or a minute is not that of its times"
    if any(row[name] != right[name] for name in _REWOUND):
        yield "the sums of rewound rows are wrong"
    if stray := _stray_count(log, last, is_message):
        yield stray


def rebuild(log: SessionLog) -> int:
    """Compute the caches of a session anew from its log; how many rows were wrong."""
    wrong = _forget_unreadable(log)
    head = lock(log)
    seq = head.last_seq
    try:
        is_wrong = shown_problem(log, seq) is not None
    except HistoryCorrupt:
        is_wrong = True
    if is_wrong:
        refresh_shown(log, seq)
        wrong += 1
    wrong += _drop_stray_counts(log, seq)
    controls = read_controls(log, seq)
    try:
        _, cached = read_present(log, seq)
    except HistoryCorrupt:  # rows that cannot be read cannot be compared either
        wrong += log.run(_DROP_SPANS) + log.run(_DROP_CLEARINGS)
        cached = NONE
    wrong += renew(log, cached, caches_of(controls, seq))
    right = _columns(log, head._replace(times=read_times(log, seq)))
    if (log.row(_NUMBERS) or ())[: len(_CACHED)] != tuple(right.values()):
        wrong += log.run(_RENEW, **{f"new_{name}": value for name, value in right.items()})
    return wrong


def _columns(log: SessionLog, head: SessionHead) -> dict[str, Any]:
    """The cached columns as they should be, given the times and the spans."""
    columns = {**head.columns(), **dict(zip(_REWOUND, rewound_sum(log), strict=True))}
    return {name: columns[name] for name in _CACHED}


def _forget_unreadable(log: SessionLog) -> int:
    """Empty the cached columns of the session's row if one cannot be read; 1 if so.

    This comes before the session is locked, because locking reads them too.
    """
    try:
        log.row(_NUMBERS)
    except HistoryCorrupt:
        return log.run(_FORGET)
    return 0


def _drop_stray_counts(log: SessionLog, seq: int) -> int:
    """Delete the counts of entries that are no messages, or all if one cannot be read; how many."""

    @cache
    def messages() -> set[int]:  # only if there are counts: a log that was restored has none
        return {row[0] for row in log.rows(_MESSAGES_UP_TO, seq=seq)}

    wrong = 0
    # If stray counts remain, the table holds values that cannot be read. Counts are a cache, so all
    # of them go.
    for statement in (_DROP_STRAY_COUNTS, _DROP_COUNTS):
        if _stray_count(log, seq, lambda seq: seq in messages()):
            wrong += log.run(statement)
    return wrong


def _stray_count(log: SessionLog, last: int, is_message: Callable[[int], bool]) -> str | None:
    """The first count that belongs to no message, or cannot be read."""
    place: dict[str, Any] = {"variant": "", "counter": "", "seq": 0}
    while True:
        try:
            rows = log.rows(_COUNTS, **place, page=_PAGE)
        except HistoryCorrupt as damage:
            return damage.fact.rstrip(".")
        for row in rows:
            *key, seq, tokens, _ = row[1:]
            place = dict(zip(place, (*key, seq), strict=True))
            if not 1 <= seq <= last or tokens < 0 or not is_message(seq):
                return f"a count of entry {seq} is below zero, or the entry is not a message"
        if len(rows) < _PAGE:
            return None

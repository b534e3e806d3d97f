"""The caches of a log: whether they agree with it, and how they are computed anew.

Spans, clearings, title and metadata are functions of the log, and are compared with it. Counts are
numbers that only their counter knows: of these, the messages that they belong to are checked.
"""

from collections.abc import Callable
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
from roocontext.store.reading.points_in_time import renew_times
from roocontext.store.reading.totals import is_rewound_wrong, keep_rewound
from roocontext.store.sessions.sessions import is_misplaced, put_in_place
from roocontext.store.writing.caches import NONE, caches_of, read_present, renew
from roocontext.store.writing.shown import refresh_shown, shown_problem

_PAGE = 10_000
_SESSION = select(*sessions.columns).where(of_session(sessions))
_ARCHIVED_AT = sessions.columns.keys().index("archived_at")
_TOMBSTONE = slice(_ARCHIVED_AT, _ARCHIVED_AT + 3)
"""The columns that only an archived session fills."""
_NUMBERS = ("rewound_messages", "rewound_bytes", "recorded_back", "listed_at", *MINUTES)
"""The columns of the session's row, besides its head, that are 0 before they are computed."""
_MAYBE = tuple(name for name in Times._fields if name not in _NUMBERS)
"""Those that are NULL before they are computed."""
_KEPT = select(
    sessions.c.unindexed,
    sessions.c.changed_minute,
    *(sessions.c[name] for name in (*_NUMBERS, *_MAYBE)),
).where(of_session(sessions))
_FORGET = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        {
            **dict.fromkeys(_NUMBERS, 0),
            **dict.fromkeys(_MAYBE, null()),
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
    last = head.last_seq
    try:
        row = log.row(_SESSION)
        controls, cached = read_present(log, last)
        shown = shown_problem(log, last)
    except HistoryCorrupt as damage:
        return damage.fact.rstrip(".")
    present = caches_of(controls, last)
    checks = (
        (row is None or row[-1] is None, "the session has the receipt of a purge"),
        (row is None or set(row[_TOMBSTONE]) == {None}, "the session has a tombstone"),
        (shown is None, shown),
        (cached.spans == present.spans, "the spans are not those of the log"),
        (cached.clearings == present.clearings, "the clearings are not those of the log"),
        (not is_misplaced(log, head), "listed_at or a minute is not that of its times"),
        (not is_rewound_wrong(log), "the sums of rewound rows are wrong"),
    )
    wrong = next((problem for is_right, problem in checks if not is_right), None)
    return wrong or _stray_count(log, last, is_message)


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
    head, is_renewed = renew_times(log, head)
    wrong += is_renewed + put_in_place(log, head)
    if is_rewound_wrong(log):
        keep_rewound(log)
        wrong += 1
    return wrong


def _forget_unreadable(log: SessionLog) -> int:
    """Set the numbers of the session's row to 0 if one cannot be read; 1 if so.

    This comes before the session is locked, because locking reads them too.
    """
    try:
        log.row(_KEPT)
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

"""What is kept beside a log for speed: whether it agrees with the log, and computing it anew.

Spans, clearings, title and metadata are functions of the log, and are compared with it. Counts are
numbers that only their counter knows: of these, the messages that they belong to are checked.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import bindparam, delete, null, or_, select, true, tuple_, update

from roocontext.errors import HistoryCorrupt
from roocontext.log.times import Times
from roocontext.store.engine.schema import UP_TO_SEQ, clearings, counts, entries, sessions, spans
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import MINUTES, SessionHead, lock
from roocontext.store.reading.messages import IS_MESSAGE, read_controls
from roocontext.store.reading.points_in_time import renew_times
from roocontext.store.reading.totals import is_rewound_wrong, keep_rewound
from roocontext.store.sessions.sessions import is_misplaced, put_in_place
from roocontext.store.writing.append import prompt_is_fresh, refresh_prompt
from roocontext.store.writing.caches import NONE, caches_of, read_present, renew
from roocontext.store.writing.notes import refresh_title, title_is_fresh

_PAGE = 10_000
_SHOWN = ((title_is_fresh, refresh_title), (prompt_is_fresh, refresh_prompt))
"""What lists show of a log: how it is compared with the log, and how it is computed anew."""
_SESSION = select(*sessions.columns).where(sessions.c.session_id == bindparam("session_id"))
_NUMBERS = ("rewound_messages", "rewound_bytes", "recorded_back", "listed_at", *MINUTES)
"""What the session's row keeps of its log besides its head, and 0 before it is computed."""
_MAYBE = tuple(name for name in Times._fields if name not in _NUMBERS)
"""The same, NULL before it is computed."""
_KEPT = select(sessions.c.unindexed, *(sessions.c[name] for name in (*_NUMBERS, *_MAYBE))).where(
    sessions.c.session_id == bindparam("session_id")
)
_FORGET = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values({**dict.fromkeys(_NUMBERS, 0), **dict.fromkeys(_MAYBE, null()), "unindexed": true()})
)
_COUNTS = (
    select(*counts.columns)
    .where(
        counts.c.session_id == bindparam("session_id"),
        tuple_(counts.c.variant, counts.c.counter, counts.c.seq)
        > tuple_(bindparam("variant"), bindparam("counter"), bindparam("seq")),
    )
    .order_by(counts.c.variant, counts.c.counter, counts.c.seq)
    .limit(bindparam("page"))
)
_MESSAGES = select(entries.c.seq).where(
    entries.c.session_id == bindparam("session_id"), UP_TO_SEQ, IS_MESSAGE
)
_DROP_SPANS = delete(spans).where(spans.c.session_id == bindparam("session_id"))
_DROP_CLEARINGS = delete(clearings).where(clearings.c.session_id == bindparam("session_id"))
_DROP_COUNTS = delete(counts).where(counts.c.session_id == bindparam("session_id"))
_DROP_STRAY_COUNTS = _DROP_COUNTS.where(
    or_(
        counts.c.tokens < 0,
        counts.c.seq < 1,
        ~select(entries.c.seq)
        .where(
            entries.c.session_id == bindparam("session_id"),
            entries.c.seq == counts.c.seq,
            IS_MESSAGE,
        )
        .exists(),
    )
)


def problem_of(
    tx: Transaction, session_id: str, head: SessionHead, is_message: Callable[[int], bool]
) -> str | None:
    """What is wrong with what is kept beside a log that has this head, if anything is."""
    last = head.last_seq
    try:
        row = tx.row(_SESSION, session_id=session_id)
        controls, cached = read_present(tx, session_id, last)
        is_titled = title_is_fresh(tx, session_id, last)
        is_prompted = prompt_is_fresh(tx, session_id, last)
    except HistoryCorrupt as damage:
        return damage.fact.rstrip(".")
    present = caches_of(controls, last)
    checks = (
        (row is None or row[-1] is None, "the session has the receipt of a purge"),
        (is_titled, "title or metadata are not those of the log"),
        (is_prompted, "the first prompt is not that of the log"),
        (cached.spans == present.spans, "the spans are not those of the log"),
        (cached.clearings == present.clearings, "the clearings are not those of the log"),
        (not is_misplaced(tx, session_id, head), "listed_at or a minute is not that of its times"),
        (not is_rewound_wrong(tx, session_id), "the sums of rewound rows are wrong"),
    )
    wrong = next((problem for is_right, problem in checks if not is_right), None)
    return wrong or _stray_count(tx, session_id, last, is_message)


def rebuild(tx: Transaction, session_id: str) -> int:
    """Compute the caches of a session anew from its log; how many rows were wrong."""
    wrong = _forget_unreadable(tx, session_id)
    head = lock(tx, session_id)
    seq = head.last_seq
    wrong += _rebuild_shown(tx, session_id, seq) + _rebuild_counts(tx, session_id, seq)
    controls = read_controls(tx, session_id, seq)
    try:
        _, cached = read_present(tx, session_id, seq)
    except HistoryCorrupt:  # rows that cannot be read cannot be compared either
        session = {"session_id": session_id}
        wrong += tx.run(_DROP_SPANS, **session) + tx.run(_DROP_CLEARINGS, **session)
        cached = NONE
    wrong += renew(tx, session_id, cached, caches_of(controls, seq))
    head, is_renewed = renew_times(tx, session_id, head)
    wrong += is_renewed + put_in_place(tx, session_id, head)
    if is_rewound_wrong(tx, session_id):
        keep_rewound(tx, session_id)
        wrong += 1
    return wrong


def _forget_unreadable(tx: Transaction, session_id: str) -> int:
    """Set the numbers of the session's row to 0 if one cannot be read; 1 if so.

    This comes before the session is locked, because locking reads them too.
    """
    try:
        tx.row(_KEPT, session_id=session_id)
    except HistoryCorrupt:
        return tx.run(_FORGET, of=session_id)
    return 0


def _rebuild_shown(tx: Transaction, session_id: str, seq: int) -> int:
    """Title and metadata, and the first prompt; how many of the two were wrong."""
    wrong = 0
    for is_fresh, refresh in _SHOWN:
        try:
            rightly = is_fresh(tx, session_id, seq)
        except HistoryCorrupt:
            rightly = False
        if not rightly:
            refresh(tx, session_id, seq)
            wrong += 1
    return wrong


def _rebuild_counts(tx: Transaction, session_id: str, seq: int) -> int:
    """Counts of what is no message go, or all if one cannot be read; how many went."""

    @cache
    def messages() -> set[int]:  # only if there are counts: a log that was restored has none
        return {row[0] for row in tx.rows(_MESSAGES, session_id=session_id, seq=seq)}

    wrong = 0
    # If stray counts remain, the table holds what cannot be read, and all counts go: they are a
    # cache.
    for statement in (_DROP_STRAY_COUNTS, _DROP_COUNTS):
        if _stray_count(tx, session_id, seq, lambda seq: seq in messages()):
            wrong += tx.run(statement, session_id=session_id)
    return wrong


def _stray_count(
    tx: Transaction, session_id: str, last: int, is_message: Callable[[int], bool]
) -> str | None:
    """The first count that belongs to no message, or cannot be read."""
    place: dict[str, Any] = {"variant": "", "counter": "", "seq": 0}
    while True:
        try:
            rows = tx.rows(_COUNTS, session_id=session_id, **place, page=_PAGE)
        except HistoryCorrupt as damage:
            return damage.fact.rstrip(".")
        for row in rows:
            *key, seq, tokens, _ = row[1:]
            place = dict(zip(place, (*key, seq), strict=True))
            if not 1 <= seq <= last or tokens < 0 or not is_message(seq):
                return f"counts holds a row of {seq}, which is no message, or one below zero"
        if len(rows) < _PAGE:
            return None

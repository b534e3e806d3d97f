"""The usage that was reported, of a session, a family or all sessions, and single calls of models.

No message is read. A fork holds the entries of its origin, which were paid for there: only the
entries after the newest origin note count.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, islice
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import bindparam, case, func, literal_column, or_, select, text

from roocontext.errors import HistoryCorrupt
from roocontext.log.counting import COMPACTION, FAILED_SUMMARIES, ReportedUsage
from roocontext.log.encoding import MIN_INTEGER, decode
from roocontext.log.entries import Kind
from roocontext.log.times import ORIGIN
from roocontext.log.values import Value
from roocontext.store.engine.schema import AFTER_SEQ, IN_LOG, counts, entries, sessions
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import read_head
from roocontext.store.reading.pages import Page, cut_page, read_cursor, rows_for, write_cursor

_AT_ONCE: Final = 100
"""How many sessions are read at once: a page may end in the first of a thousand."""

# Level by level: the planner of PostgreSQL joins a recursive query by reading all sessions.
_CHILDREN: Final = (
    select(sessions.c.session_id)
    .where(sessions.c.parent.is_not(None), sessions.c.parent == bindparam("parent"))
    .order_by(sessions.c.session_id)
)
_ACTIVE: Final = (
    select(sessions.c.session_id)
    .where(
        sessions.c.purged_at.is_(None),
        sessions.c.session_id >= bindparam("first"),
        # No entry of it is later than these two by either clock.
        or_(
            sessions.c.latest_recorded >= bindparam("since"),
            sessions.c.latest_happened >= bindparam("since"),
        ),
    )
    .order_by(sessions.c.session_id)
)
_in_session = entries.c.session_id == bindparam("session_id")
_is_summary = entries.c.kind == text(f"'{Kind.SUMMARY}'")
_is_about_compaction = entries.c.note == text(f"'{COMPACTION}'")
_LAST: Final = select(sessions.c.last_seq).where(sessions.c.session_id == bindparam("session_id"))
_ORIGIN: Final = (
    select(entries.c.seq)
    .where(
        _in_session,
        entries.c.note.is_not(None),
        entries.c.note == text(f"'{ORIGIN}'"),
        entries.c.target.is_(None),
        (entries.c.seq + literal_column("0")) <= _LAST.scalar_subquery(),
    )
    # In the order of the index of notes: SQLite would walk the whole session instead.
    .order_by(entries.c.target.desc(), entries.c.seq.desc())
    .limit(1)
)
# For one session, because a join of a family with its entries may be planned as a scan of all logs.
_REPORTED: Final = (
    select(
        entries.c.session_id,
        entries.c.seq,
        entries.c.model,
        entries.c.usage,
        entries.c.recorded_at,
        case((entries.c.note.is_(None), entries.c.ts)),
        case((_is_summary, entries.c.details)),
        case((_is_about_compaction, entries.c.content)),
    )
    .where(
        _in_session,
        entries.c.seq
        > func.coalesce(_ORIGIN.correlate(None).scalar_subquery(), literal_column("0")),
        entries.c.seq <= _LAST.scalar_subquery(),
        or_(entries.c.usage.is_not(None), _is_summary, _is_about_compaction),
    )
    .order_by(entries.c.seq)
)


def reported(
    tx: Transaction, session_id: str, *, family: bool, limit: int, after: str | None
) -> Page[ReportedUsage]:
    """A page of what was reported for replies, for summaries, and for calls that gave none."""
    read_head(tx, session_id)
    name = f"usage of {session_id}"
    start = _Start(*read_cursor(name, after, str, int, int)) if after is not None else _Start()
    members = _descended(tx, session_id) if family else [session_id]
    if after is not None:
        members = [*dropwhile(start.session_id.__ne__, members)]
    return _page(name, _reported(tx, members, start), limit)


def reported_between(
    tx: Transaction,
    since: int | None,
    until: int | None,
    *,
    recorded: bool,
    limit: int,
    after: str | None,
) -> Page[ReportedUsage]:
    """The same of all sessions, if it happened or was recorded since a time and before another."""
    start = _Start(*read_cursor("usage", after, str, int, int)) if after is not None else _Start()
    lo = MIN_INTEGER if since is None else since
    active = tx.rows(_ACTIVE, since=lo, first=start.session_id)
    times = (
        (row, number, row.recorded_at if recorded else row.happened_at)
        for row, number in _reported(tx, [row[0] for row in active], start)
    )
    between = (
        (row, number)
        for row, number, time in times
        if time >= lo and (until is None or time < until)
    )
    return _page("usage", between, limit)


class _Start(NamedTuple):
    """The row that a page begins after: its session, its entry, and its number in the entry."""

    session_id: str = ""
    seq: int = 0
    number: int = 0


_Numbered: TypeAlias = tuple[ReportedUsage, int]
"""A row, and its number among those of its entry."""


def _reported(tx: Transaction, members: Sequence[str], start: _Start) -> Iterator[_Numbered]:
    """The rows of some sessions, the first of which may be the one that a page begins in."""
    for first in range(0, len(members), _AT_ONCE):
        some = members[first : first + _AT_ONCE]
        for entry in tx.each(_REPORTED, [{"session_id": member} for member in some]):
            for number, row in enumerate(_of_entry(entry)):
                if row.session_id != start.session_id or (row.seq, number) > start[1:]:
                    yield row, number


def _page(name: str, rows: Iterator[_Numbered], limit: int) -> Page[ReportedUsage]:
    page = cut_page(
        [*islice(rows, rows_for(limit))],
        limit,
        lambda last: write_cursor(name, last[0].session_id, last[0].seq, last[1]),
    )
    return Page((row for row, _ in page), page.next)


def _descended(tx: Transaction, session_id: str) -> list[str]:
    """A session and its descendants, those of purged sessions too."""
    members, level = [session_id], [session_id]
    while level:
        found = tx.each(_CHILDREN, [{"parent": parent} for parent in level])
        level = [row[0] for row in found]
        if session_id in level:  # each has one parent, so no other session can come again
            raise HistoryCorrupt(f"Session {session_id!r} is a descendant of itself.")
        members += level
    return members


# The notes and the records of plans are anyone's, with anything in them.


def _of_entry(row: SqlRow) -> Iterator[ReportedUsage]:
    session_id, seq, model, usage, recorded_at, ts, details, note = row
    plain = ReportedUsage(session_id, seq, model, None, recorded_at, ts=ts)
    summary = plain._replace(model=None, is_summary=True)
    if note is not None:
        yield from _failed(summary, decode(note), FAILED_SUMMARIES)
    elif details is not None:
        match decode(details):
            case {"record": {"summary": {**facts}}}:
                yield from _failed(summary, facts, "failed")
                yield _of_summary(summary, facts)
            case _:
                yield summary
    else:
        yield plain._replace(usage=decode(usage))


def _failed(summary: ReportedUsage, content: Any, name: str) -> Iterator[ReportedUsage]:
    """What the calls of summarisers that gave no usable summary cost."""
    failed = content.get(name) if isinstance(content, dict) else None
    for facts in failed if isinstance(failed, list) else ():
        if isinstance(facts, dict):
            yield _of_summary(summary, facts)._replace(is_failed=True)


def _of_summary(summary: ReportedUsage, facts: Mapping[Any, Any]) -> ReportedUsage:
    model = facts.get("model")
    return summary._replace(model=model if isinstance(model, str) else None, usage=facts)


REQUEST: Final = "request"
"""The variant of a count that is of the whole request which the message answers."""

_CALLS = (
    select(entries.c.seq, entries.c.model, entries.c.usage)
    .where(
        entries.c.session_id == bindparam("session_id"),
        AFTER_SEQ,
        entries.c.usage.is_not(None),
    )
    .order_by(entries.c.seq)
)
_NEWEST_CONTROL = (
    select(entries.c.seq)
    .where(entries.c.session_id == bindparam("session_id"), entries.c.details.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_ESTIMATES = select(counts.c.seq, counts.c.counter, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.variant == text(f"'{REQUEST}'"),
    counts.c.seq > bindparam("seq"),
)


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A call of a model: the answer's seq, what the provider reported, what was estimated before.

    The estimates are by counter. `current` says that the view has only grown since: no plan and no
    rewind came after it.
    """

    seq: int
    model: str | None
    usage: Any
    estimates: Mapping[str, int]
    current: bool


def model_calls(tx: Transaction, session_id: str, *, last: int | None = None) -> list[Call]:
    """The calls whose usage is in the log, oldest first; only among the `last` entries."""
    newest = read_head(tx, session_id).last_seq
    after = 0 if last is None else max(0, newest - last)
    rows = tx.rows(_CALLS, session_id=session_id, seq=after)
    estimates: dict[int, dict[str, int]] = defaultdict(dict)
    for seq, counter, estimate in tx.rows(_ESTIMATES, session_id=session_id, seq=after):
        estimates[seq][counter] = estimate
    changed = newest_control(tx, session_id)
    return [
        Call(seq, model, decode(usage), estimates[seq], seq > changed) for seq, model, usage in rows
    ]


def newest_control(tx: Transaction, session_id: str) -> int:
    """The last entry that was more than an append: 0 if the session has only grown."""
    row = tx.row(_NEWEST_CONTROL, session_id=session_id)
    return row[0] if row else 0

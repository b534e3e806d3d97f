"""The usage that was reported, of a session, a family or all sessions, and single calls of models.

No message is read. A fork holds the entries of its origin, which were paid for there: only the
entries after the newest origin note count. An archived session has no entries here, and counts by
what its tombstone keeps of them.
"""

import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import dropwhile, islice
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from sqlalchemy import (
    BigInteger,
    Select,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    union_all,
)

from roocontext.errors import HistoryCorrupt, InvalidOption
from roocontext.log.counting import COMPACTION, FAILED_SUMMARIES, ReportedUsage, UsageGroup
from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER, decode, encode
from roocontext.log.entries import Kind
from roocontext.log.moments import check_time, day, happened
from roocontext.log.times import ORIGIN
from roocontext.log.values import Value
from roocontext.store.engine.schema import (
    IN_LOG,
    LAST,
    counts,
    entries,
    log_rows,
    newest_control,
    of_session,
    sessions,
)
from roocontext.store.engine.shapes import checked_rows
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow, Transaction
from roocontext.store.reading.families import descended
from roocontext.store.reading.head import read_archive, read_head, read_with_head
from roocontext.store.reading.notes import HAS_NO_TARGET, newest_note_of
from roocontext.store.reading.pages import Page, cut_page, read_cursor, rows_for, write_cursor

_AT_ONCE: Final = 100
"""How many sessions are read at once: a page may end in the first of a thousand."""

ACTIVE: Final = crossing(
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
_is_summary = entries.c.kind == text(f"'{Kind.SUMMARY}'")
_is_about_compaction = entries.c.note == text(f"'{COMPACTION}'")
_ORIGIN: Final = newest_note_of(entries.c.seq, kind=text(f"'{ORIGIN}'"), until=IN_LOG).where(
    HAS_NO_TARGET
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
        of_session(entries),
        entries.c.seq
        > func.coalesce(_ORIGIN.correlate(None).scalar_subquery(), literal_column("0")),
        entries.c.seq <= LAST,
        or_(entries.c.usage.is_not(None), _is_summary, _is_about_compaction),
    )
    .order_by(entries.c.seq)
)
# No condition of what is archived: PostgreSQL would read the index of all archived sessions.
_KEPT: Final = select(sessions.c.archive).where(of_session(sessions))


_KeptUsage: TypeAlias = tuple[int, str | None, str | None, int, int | None, str | None, str | None]
"""A row of `_REPORTED` without the session, as the tombstone keeps it."""
_decode_kept = msgspec.json.Decoder(tuple[_KeptUsage, ...]).decode

UsageGrouping: TypeAlias = Literal["day", "model", "session"]


class _Place(NamedTuple):
    """The last row of a page: its session, its entry, and its number among the entry's rows."""

    session_id: str = ""
    seq: int = 0
    number: int = 0


_START: Final = _Place()


def reported(
    log: SessionLog, *, family: bool, limit: int, after: str | None
) -> Page[ReportedUsage]:
    """Read a page of the usage of a session or its family: of replies, summaries, failed calls."""
    read_head(log)
    members = descended(log) if family else [log.session_id]
    name, place = f"usage of {log.session_id}", _START
    if after is not None:
        place = _Place(*read_cursor(name, after, str, int, int))
        members = [*dropwhile(place.session_id.__ne__, members)]
    return _page(name, _reported(log.tx, members, place), limit)


def reported_between(
    tx: Transaction,
    active: Select[Any],
    params: Mapping[str, Any],
    *,
    recorded: bool,
    limit: int,
    after: str | None,
) -> Page[ReportedUsage]:
    """Read the same of the active sessions, if it happened or was recorded between two times.

    `active` is `ACTIVE`, or a narrower statement, and `params` are its parameters and the times.
    """
    name = "usage"
    place = _START if after is None else _Place(*read_cursor(name, after, str, int, int))
    lo, until = params.get("since", MIN_INTEGER), params.get("until")
    names = tx.rows(active, **{**params, "since": lo, "first": place.session_id})

    def is_between(row: ReportedUsage) -> bool:
        time = row.recorded_at if recorded else row.happened_at
        return lo <= time and (until is None or time < until)

    rows = _reported(tx, [row[0] for row in names], place)
    return _page(name, ((row, number) for row, number in rows if is_between(row)), limit)


def _reported(
    tx: Transaction, members: Sequence[str], place: _Place
) -> Iterator[tuple[ReportedUsage, int]]:
    """Read the rows of these sessions after a place in the first of them, each with its number."""
    for first in range(0, len(members), _AT_ONCE):
        some = [{"session_id": member} for member in members[first : first + _AT_ONCE]]
        answers = tx.all([(query, named) for named in some for query in (_REPORTED, _KEPT)])
        for named, rows, [(archive,)] in zip(some, answers[::2], answers[1::2], strict=True):
            for entry in _unpacked(named["session_id"], archive) if archive is not None else rows:
                for number, row in enumerate(_of_entry(entry)):
                    if row.session_id != place.session_id or (row.seq, number) > place[1:]:
                        yield row, number


def packed_usage(log: SessionLog) -> str:
    """The usage of a session that its tombstone keeps; of notes and plans nothing else."""
    rows = [_to_keep(row) for row in log.rows(_REPORTED)]
    return b64encode(zlib.compress(msgspec.json.encode(rows))).decode() if rows else ""


def _to_keep(row: SqlRow) -> _KeptUsage:
    _, seq, model, usage, recorded_at, ts, details, note = row
    if note is not None:
        content = decode(note)
        failed = content.get(FAILED_SUMMARIES) if isinstance(content, dict) else None
        note = encode({FAILED_SUMMARIES: failed})
    if details is not None:
        match decode(details):
            case {"record": {"summary": {**facts}}}:
                details = encode({"record": {"summary": facts}})
            case _:
                details = "{}"
    return seq, model, usage, recorded_at, ts, details, note


def _unpacked(session_id: str, text: str) -> Iterator[SqlRow]:
    packed = read_archive(session_id, text).usage
    try:
        rows = _decode_kept(zlib.decompress(b64decode(packed))) if packed else ()
    except (ValueError, zlib.error):  # msgspec's errors and those of base64 are ValueErrors
        line = f"Session {session_id!r} has a tombstone whose usage no archive has written."
        raise HistoryCorrupt(line) from None
    for row in rows:
        yield session_id, *row


def grouped_usage(
    rows: Iterable[ReportedUsage], by: UsageGrouping, zone: tzinfo | None, *, recorded: bool
) -> list[UsageGroup]:
    """Group rows by the day on which they happened or were recorded, by model, or by session."""
    groups: defaultdict[str | None, list[ReportedUsage]] = defaultdict(list)
    for row in rows:
        if by == "day":
            name: str | None = day(row.recorded_at if recorded else row.happened_at, zone)
        else:
            name = row.model if by == "model" else row.session_id
        groups[name].append(row)
    in_order = sorted(groups.items(), key=lambda group: (group[0] is None, group[0] or ""))
    return [UsageGroup(name, tuple(rows)) for name, rows in in_order]


def check_grouping(by: object, zone: object, limit: int | None, after: str | None) -> None:
    """Refuse a way to group that there is not, and pages of groups."""
    if by not in get_args(UsageGrouping):
        raise InvalidOption("by must be day, model or session.", name="by")
    if zone is not None and not isinstance(zone, tzinfo):
        raise InvalidOption("zone must be a tzinfo, or None for the local time zone.", name="zone")
    if limit is not None or after is not None:
        line = "Groups have no pages: leave out limit and after, or by."
        raise InvalidOption(line, name="limit" if limit is not None else "after")


def _page(name: str, rows: Iterator[tuple[ReportedUsage, int]], limit: int) -> Page[ReportedUsage]:
    page = cut_page(
        [*islice(rows, rows_for(limit))],
        limit,
        lambda last: write_cursor(name, last[0].session_id, last[0].seq, last[1]),
    )
    return Page((row for row, _ in page), page.next)


# Notes and the records of plans are written by callers, and may hold anything.


def _of_entry(row: SqlRow) -> Iterator[ReportedUsage]:
    session_id, seq, model, usage, recorded_at, ts, details, note = row
    check_time(seq, recorded_at, happened(ts, recorded_at))
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
    """The usage of a summariser's calls that produced no usable summary."""
    failed = content.get(name) if isinstance(content, dict) else None
    for facts in failed if isinstance(failed, list) else ():
        if isinstance(facts, dict):
            yield _of_summary(summary, facts)._replace(is_failed=True)


def _of_summary(summary: ReportedUsage, facts: Mapping[Any, Any]) -> ReportedUsage:
    model = facts.get("model")
    return summary._replace(model=model if isinstance(model, str) else None, usage=facts)


REQUEST: Final = "request"
"""The variant of a count that is the estimate of the whole request that the message answers."""

_before = LAST - bindparam("last", type_=BigInteger)
# One lower bound, and none below the first entry: nothing of the log is before it.
_before_last = case((_before > 0, _before), else_=literal_column("0"))
_REPLIES = log_rows("seq", "model", "usage", "asked_at").where(
    entries.c.seq > _before_last, entries.c.seq <= LAST, entries.c.usage.is_not(None)
)
_ESTIMATES = select(counts.c.seq, counts.c.counter, counts.c.tokens).where(
    of_session(counts), counts.c.variant == text(f"'{REQUEST}'"), counts.c.seq > _before_last
)
# In one statement; not joined, because a join reads the estimates of a session for each of its
# calls. An estimate has no usage.
_CALLS = union_all(
    _REPLIES.add_columns(null().label("counter"), null().label("tokens")),
    _ESTIMATES.with_only_columns(
        *(counts.c.seq, null(), null(), null(), counts.c.counter, counts.c.tokens),
        maintain_column_froms=True,
    ),
)
_NEWEST_CONTROL = newest_control("seq")


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A call of a model: the seq of its reply, the reported usage, and the earlier estimates.

    `read` is the last entry that its request had read: messages may have come between that and the
    reply. The estimates are by counter. The call is `current` if the view has only grown since its
    request: no plan and no rewind came after it.
    """

    seq: int
    model: str | None
    usage: Any
    estimates: Mapping[str, int]
    current: bool
    read: int


def model_calls(log: SessionLog, *, last: int | None = None) -> list[Call]:
    """Read the calls whose usage is in the log, oldest first; only among the `last` entries."""
    _, (rows, control) = read_with_head(log, [calls_query(last), (_NEWEST_CONTROL, {})])
    return to_calls(rows, control[0][0] if control else 0)


def calls_query(last: int | None) -> Query:
    """The query whose rows `to_calls` takes."""
    return _CALLS, {"last": MAX_INTEGER if last is None else last}


def to_calls(rows: Sequence[SqlRow], changed: int) -> list[Call]:
    """Make the calls of these rows. `changed` is the newest control row of the session."""
    replies = checked_rows(_REPLIES, [row[:4] for row in rows if row[4] is None])
    estimates: dict[int, dict[str, int]] = defaultdict(dict)
    known = [(row[0], *row[4:]) for row in rows if row[4] is not None]
    for seq, counter, estimate in checked_rows(_ESTIMATES, known):
        estimates[seq][counter] = estimate
    return [
        Call(seq, model, decode(usage), estimates[seq], read >= changed, read)
        for seq, model, usage, asked_at in sorted(replies, key=itemgetter(0))
        for read in (seq - 1 if asked_at is None else asked_at,)
    ]


def last_changed(log: SessionLog) -> int:
    """Find the last entry that was more than an append; 0 if the session has only grown."""
    row = log.row(_NEWEST_CONTROL)
    return row[0] if row else 0

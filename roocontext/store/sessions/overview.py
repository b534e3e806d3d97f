"""The list of sessions with their sizes and last calls, in one statement. No content is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    ScalarSelect,
    Select,
    Subquery,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    select,
    text,
)

from roocontext.log.encoding import decode
from roocontext.log.entries import Kind
from roocontext.log.times import ORIGIN
from roocontext.log.values import Value
from roocontext.store.engine.schema import VISIBLE, entries, sessions, spans
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.statements import OneOf, crossing
from roocontext.store.engine.transaction import SessionLog, SqlRow, Transaction
from roocontext.store.reading.pages import Page, cut_page, rows_for
from roocontext.store.reading.totals import Total
from roocontext.store.sessions.listing import ListFilter, ListShape, page_of
from roocontext.store.sessions.sessions import (
    INFO,
    SessionInfo,
    Stats,
    cursor_in_list,
    place_in_list,
    to_info,
)

RECENT = 200
"""How many of the newest entries are searched for a model."""


@dataclass(frozen=True, slots=True)
class LastCall(Value):
    """The last call of a model: the usage that was reported, and the bytes appended since."""

    seq: int
    model: str
    usage: Any
    bytes_since: int


@dataclass(frozen=True, slots=True)
class SessionOverview(Value):
    """A session of the list: its sizes, and the model that its newest entries name.

    `beginning` is the shortest beginning of its id that no other id has. `last_call` is the newest
    call that no rewind took back; None if a summary, marker, clearing or uncovering followed it. A
    fork is a copy of session `forked_from` up to entry `forked_at`.
    """

    info: SessionInfo
    stats: Stats
    model: str | None
    beginning: str
    last_call: LastCall | None
    forked_from: str | None
    forked_at: int | None


def overview(
    tx: Transaction, limit: int, after: str | None, wanted: ListFilter
) -> Page[SessionOverview]:
    """Read a page of the sessions by their time, newest first."""
    recorded, continues = wanted.shape.is_recorded, after is not None
    place = place_in_list(after, recorded=recorded)
    params = {**wanted.params, **place, "page": rows_for(limit)}
    if wanted.shape.has_ids:
        params["ids"] = tx.many_values(params["ids"])
    if tx.is_distributed:
        return _in_parts(tx, limit, wanted.shape, params, continues=continues)
    rows = tx.rows(_newest(wanted.shape, continues=continues), **params, recent=RECENT)
    overviews = [_overview(row) for row in rows]
    return cut_page(overviews, limit, lambda last: cursor_in_list(last.info, recorded=recorded))


def overview_of(log: SessionLog) -> SessionOverview | None:
    """Read one session as the list shows it; None if it does not exist or was purged."""
    only_this = ListFilter(ListShape(is_one=True), {"one": log.session_id})
    return next(iter(overview(log.tx, 1, None, only_this)), None)


def _in_parts(
    tx: Transaction, limit: int, shape: ListShape, params: Mapping[str, Any], *, continues: bool
) -> Page[SessionOverview]:
    """The page if no statement can join sessions of several nodes: the page first, then the rest.

    What happens in between may show in the sizes, and changes neither the order nor the cursor.
    """
    listed = tx.rows(page_of(INFO, shape, continues=continues), **params)
    cursors = [cursor_in_list(to_info(row), recorded=shape.is_recorded) for row in listed]
    ids = [row[0] for row in listed]
    rows, *neighbours = tx.all(
        [
            (_OF_PAGE, {"ids": tx.many_values(ids), "recent": RECENT}),
            *((query, {"session_id": name}) for name in ids for query in (_PREVIOUS, _NEXT)),
        ]
    )
    known = {row[0]: row for row in rows}
    names = iter(rows[0][0] if rows else None for rows in neighbours)
    overviews = [_overview((*known[name], next(names), next(names))) for name in ids]
    return cut_page(overviews, limit, lambda _: cursors[limit - 1])


_INFO = tuple(field.name for field in fields(SessionInfo))
_LISTED_BY = ("listed_at", "rewound_messages", "rewound_bytes")
_COLUMNS = (*INFO, *(sessions.c[name] for name in _LISTED_BY))


@cache
def _newest(shape: ListShape, *, continues: bool) -> Select[Any]:
    # The page is a subquery, because SQLite would otherwise compute the sums of all sessions.
    page = _with_calls(page_of(_COLUMNS, shape, continues=continues))
    listed = select(
        *_sizes(page), _neighbour(page, is_next=False), _neighbour(page, is_next=True)
    ).order_by(
        *(() if shape.is_recorded else (page.c.listed_at.desc(),)),
        *(page.c.updated_at.desc(), page.c.session_id),
    )
    return crossing(listed)


def _with_calls(page: Select[Any]) -> Subquery:
    """The sessions of a page with the seqs of their newest calls."""
    inner = page.subquery("page")
    return select(*inner.c, _newest_call(inner).label("called_at")).subquery("listed")


def _sizes(page: Subquery) -> tuple[ColumnElement[Any], ...]:
    # Scalar subqueries, because each is answered from an index whatever the planner knows. A join
    # of spans and entries that is grouped afterwards may be planned as a scan of all entries.
    return (
        *(page.c[name] for name in _INFO),
        _visible(page, entries.c.messages_total),
        _visible(page, entries.c.bytes_total),
        page.c.rewound_messages,
        page.c.rewound_bytes,
        _newest_model(page),
        page.c.called_at,
        _of_call(page, entries.c.model),
        _of_call(page, entries.c.usage),
        _visible(page, entries.c.bytes_total, after=page.c.called_at),
        _origin(page),
    )


def _visible(
    page: Subquery, total: Column[int], after: ColumnElement[int] | None = None
) -> ScalarSelect[Any]:
    """The sum of a running total over the visible spans, or over their part after an entry."""
    before = spans.c.lo - 1
    if after is not None:
        before = case((before > after, before), else_=after)
    size = _total_at(page, total, spans.c.hi) - _total_at(page, total, before)
    shown: Select[Any] = select(func.coalesce(func.sum(size), 0)).where(
        spans.c.session_id == page.c.session_id, text(VISIBLE)
    )
    if after is not None:
        shown = shown.where(spans.c.hi > after)
    return shown.correlate(page).scalar_subquery()


def _total_at(page: Subquery, total: Column[int], seq: ColumnElement[int]) -> ColumnElement[int]:
    """A running total at an entry, or at the last one if the log ends before it."""
    last = case((seq > page.c.last_seq, page.c.last_seq), else_=seq)
    at = and_(entries.c.session_id == page.c.session_id, entries.c.seq == last, last > 0)
    return func.coalesce(select(total).where(at).correlate(page, spans).scalar_subquery(), 0)


def _newest_of(page: Subquery, column: Column[Any]) -> Select[Any]:
    """A column of the newest entry that names a model."""
    # One lower bound: with two SQLite would start at the first entry.
    before = page.c.last_seq - bindparam("recent")
    first = case((before > 0, before + 1), else_=1)
    return (
        select(column)
        .where(
            entries.c.session_id == page.c.session_id,
            entries.c.seq.between(first, page.c.last_seq),
            entries.c.model.is_not(None),
        )
        .order_by(entries.c.seq.desc())
        .limit(1)
        .correlate(page)
    )


def _newest_model(page: Subquery) -> ScalarSelect[Any]:
    return _newest_of(page, entries.c.model).scalar_subquery()


def _newest_call(page: Subquery) -> ScalarSelect[Any]:
    reported = entries.c.usage.is_not(None)
    query = _newest_of(page, entries.c.seq).where(reported, ~_is_taken_back(page, entries.c.seq))
    return query.scalar_subquery()


def _is_taken_back(page: Subquery, seq: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that a rewind took an entry back."""
    # Only the span that holds the entry is read. SQLite asks this again for each visible span.
    around: Select[Any] = (
        select(spans.c.rewound_by)
        .where(spans.c.session_id == page.c.session_id, spans.c.lo <= seq)
        .order_by(spans.c.lo.desc())
        .limit(1)
    )
    return around.correlate(page, entries, _later).scalar_subquery().is_not(None)


_later = entries.alias("later")


def _of_call(page: Subquery, column: Column[Any]) -> ScalarSelect[Any]:
    """A column of the newest call, if no control row that is in effect came after it.

    A rewind itself is ignored: it only decides which of the others are in effect.
    """
    changed: Select[Any] = select(literal_column("1")).where(
        _later.c.session_id == page.c.session_id,
        _later.c.details.is_not(None),
        _later.c.kind != literal_column(f"'{Kind.REWIND.value}'"),
        _later.c.seq > page.c.called_at,
        _later.c.seq <= page.c.last_seq,
        ~_is_taken_back(page, _later.c.seq),
    )
    return (
        select(column)
        .where(
            entries.c.session_id == page.c.session_id,
            entries.c.seq == page.c.called_at,
            ~changed.correlate(page).exists(),
        )
        .correlate(page)
        .scalar_subquery()
    )


def _origin(page: Subquery) -> ScalarSelect[Any]:
    """The content of the note with which the own part of a fork begins; a fork's fork has two."""
    note: Select[Any] = select(entries.c.content).where(
        entries.c.session_id == page.c.session_id,
        entries.c.note.is_not(None),
        entries.c.note == literal_column(f"'{ORIGIN}'"),
        entries.c.target.is_(None),
        (entries.c.seq + literal_column("0")) <= page.c.last_seq,
    )
    # In the order of the index of notes: SQLite would walk the whole session instead.
    newest = note.order_by(entries.c.target.desc(), entries.c.seq.desc()).limit(1)
    return newest.correlate(page).scalar_subquery()


def _neighbour(page: Subquery, *, is_next: bool) -> ScalarSelect[Any]:
    """The next id in the order of ids, or the one before; those of purged sessions count too."""
    mine, other = page.c.session_id, sessions.alias("other")
    name = other.c.session_id
    return (
        select(name)
        .where(name > mine if is_next else name < mine)
        .order_by(name if is_next else name.desc())
        .limit(1)
        .correlate(page)
        .scalar_subquery()
    )


_OF_PAGE = crossing(
    select(*_sizes(_with_calls(select(*_COLUMNS).where(OneOf(sessions.c.session_id, "ids")))))
)
_PREVIOUS, _NEXT = (
    crossing(select(sessions.c.session_id).where(beyond).order_by(order).limit(literal_column("1")))
    for beyond, order in (
        (sessions.c.session_id < bindparam("session_id"), sessions.c.session_id.desc()),
        (sessions.c.session_id > bindparam("session_id"), sessions.c.session_id),
    )
)


def _overview(row: SqlRow) -> SessionOverview:
    info = to_info(row[: len(_INFO)])
    *sizes, model, seq, called, usage, since, origin, previous, following = row[len(_INFO) :]
    visible, rewound = Total(*map(whole_number, sizes[:2])), Total(*map(whole_number, sizes[2:]))
    hidden = Total(info.messages, info.bytes) - visible - rewound
    totals = (info.last_seq, info.messages, info.bytes, *visible, *hidden, *rewound)
    last_call = None
    if isinstance(called, str) and usage is not None:
        last_call = LastCall(seq, called, decode(usage), whole_number(since))
    forked_from: str | None = None
    forked_at: int | None = None
    match decode(origin) if isinstance(origin, str) else None:
        case {"session_id": str(name), "seq": int(at)}:
            forked_from, forked_at = name, at
    return SessionOverview(
        info,
        Stats(info.session_id, *totals),
        model,
        _beginning(info.session_id, (previous, following)),
        last_call,
        forked_from,
        forked_at,
    )


def _beginning(session_id: str, neighbours: Sequence[object]) -> str:
    """The shortest beginning of an id that its neighbours in the order of ids do not have."""
    length = 1
    for other in (name for name in neighbours if isinstance(name, str)):
        while length <= len(session_id) and other.startswith(session_id[:length]):
            length += 1
    return session_id[:length]

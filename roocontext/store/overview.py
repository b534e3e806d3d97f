"""The list of sessions with what it shows of each, in one statement. No content is read."""

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
    select,
    text,
)

from roocontext.log.encoding import decode
from roocontext.store.listing import ListFilter, ListShape, page_of
from roocontext.store.schema import VISIBLE, entries, sessions, spans
from roocontext.store.sessions import SessionInfo, Stats
from roocontext.store.shapes import whole_number
from roocontext.store.totals import Total
from roocontext.store.transaction import Row, Transaction

RECENT = 200
"""Among how many of the newest entries the last call of a model is looked for."""


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """A session of the list: its sizes, and the model whose call is the newest recorded one."""

    info: SessionInfo
    stats: Stats
    model: str | None


def overview(tx: Transaction, limit: int, wanted: ListFilter) -> list[SessionOverview]:
    """The sessions by their last entry, newest first."""
    rows = tx.rows(_newest(wanted.shape), page=limit, recent=RECENT, **wanted.params)
    return [_overview(row) for row in rows]


_INFO = tuple(field.name for field in fields(SessionInfo))
_COLUMNS = tuple(sessions.c[name] for name in (*_INFO, "rewound_messages", "rewound_bytes"))


@cache
def _newest(shape: ListShape) -> Select[Any]:
    # The page is a subquery, because SQLite would otherwise compute the sums of all sessions.
    page = page_of(_COLUMNS, shape).subquery("page")
    # Scalar subqueries, because each is answered from an index whatever the planner knows. A join
    # of spans and entries that is grouped afterwards may be planned as a scan of all entries.
    return select(
        *(page.c[name] for name in _INFO),
        _visible(page, entries.c.messages_total),
        _visible(page, entries.c.bytes_total),
        page.c.rewound_messages,
        page.c.rewound_bytes,
        _newest_model(page),
    ).order_by(page.c.updated_at.desc(), page.c.session_id)


def _visible(page: Subquery, total: Column[int]) -> ScalarSelect[Any]:
    """The sum of a running total over the visible spans of a session."""
    size = _total_at(page, total, spans.c.hi) - _total_at(page, total, spans.c.lo - 1)
    return (
        select(func.coalesce(func.sum(size), 0))
        .where(spans.c.session_id == page.c.session_id, text(VISIBLE))
        .correlate(page)
        .scalar_subquery()
    )


def _total_at(page: Subquery, total: Column[int], seq: ColumnElement[int]) -> ColumnElement[int]:
    """A running total at an entry, or at the last one if the log ends before it."""
    last = case((seq > page.c.last_seq, page.c.last_seq), else_=seq)
    at = and_(entries.c.session_id == page.c.session_id, entries.c.seq == last)
    return func.coalesce(select(total).where(at).correlate(page, spans).scalar_subquery(), 0)


def _newest_model(page: Subquery) -> ScalarSelect[Any]:
    return (
        select(entries.c.model)
        .where(
            entries.c.session_id == page.c.session_id,
            entries.c.seq > page.c.last_seq - bindparam("recent"),
            entries.c.seq <= page.c.last_seq,
            entries.c.usage.is_not(None),
            entries.c.model.is_not(None),
        )
        .order_by(entries.c.seq.desc())
        .limit(1)
        .correlate(page)
        .scalar_subquery()
    )


def _overview(row: Row) -> SessionOverview:
    session_id, title, metadata, *rest, shown, shown_bytes, rewound, rewound_bytes, model = row
    info = SessionInfo(session_id, title, metadata and decode(metadata), *rest)
    seen, taken_back = (
        Total(whole_number(shown), whole_number(shown_bytes)),
        Total(whole_number(rewound), whole_number(rewound_bytes)),
    )
    hidden = Total(info.messages, info.bytes) - seen - taken_back
    stats = Stats(session_id, info.last_seq, info.messages, info.bytes, *seen, *hidden, *taken_back)
    return SessionOverview(info, stats, model)

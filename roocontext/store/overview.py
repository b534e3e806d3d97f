"""The list of sessions with what it shows of each, in one statement. No content is read."""

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    ScalarSelect,
    and_,
    bindparam,
    case,
    func,
    select,
    text,
)

from roocontext.log.encoding import decode
from roocontext.store.schema import VISIBLE, entries, sessions, spans
from roocontext.store.sessions import SessionInfo, Stats
from roocontext.store.shapes import whole
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


def overview(tx: Transaction, limit: int) -> list[SessionOverview]:
    """The sessions by their last entry, newest first."""
    return [_overview(row) for row in tx.rows(_NEWEST, page=limit, recent=RECENT)]


_INFO = tuple(field.name for field in fields(SessionInfo))
# The page comes first: SQLite would compute what is selected for all sessions before it sorts them.
_page = (
    select(
        *(sessions.c[name] for name in _INFO),
        sessions.c.rewound_messages,
        sessions.c.rewound_bytes,
    )
    .where(sessions.c.purged_at.is_(None))
    .order_by(sessions.c.updated_minute.desc(), sessions.c.updated_at.desc(), sessions.c.session_id)
    .limit(bindparam("page"))
    .subquery("page")
)


def _total_at(total: Column[int], seq: ColumnElement[int]) -> ColumnElement[int]:
    """A running total at an entry, or at the last one if the log ends before it."""
    last = case((seq > _page.c.last_seq, _page.c.last_seq), else_=seq)
    at = and_(entries.c.session_id == _page.c.session_id, entries.c.seq == last)
    return func.coalesce(select(total).where(at).correlate(_page, spans).scalar_subquery(), 0)


def _visible(total: Column[int]) -> ScalarSelect[Any]:
    """The sum of a running total over the visible spans of a session."""
    size = _total_at(total, spans.c.hi) - _total_at(total, spans.c.lo - 1)
    return (
        select(func.coalesce(func.sum(size), 0))
        .where(spans.c.session_id == _page.c.session_id, text(VISIBLE))
        .correlate(_page)
        .scalar_subquery()
    )


_MODEL = (
    select(entries.c.model)
    .where(
        entries.c.session_id == _page.c.session_id,
        entries.c.seq > _page.c.last_seq - bindparam("recent"),
        entries.c.seq <= _page.c.last_seq,
        entries.c.usage.is_not(None),
        entries.c.model.is_not(None),
    )
    .order_by(entries.c.seq.desc())
    .limit(1)
    .correlate(_page)
    .scalar_subquery()
)
# Scalar subqueries, because each is answered from an index whatever the planner knows. A join of
# spans and entries that is grouped afterwards may be planned as a scan of all entries.
_NEWEST = select(
    *(_page.c[name] for name in _INFO),
    _visible(entries.c.messages_total),
    _visible(entries.c.bytes_total),
    _page.c.rewound_messages,
    _page.c.rewound_bytes,
    _MODEL,
).order_by(_page.c.updated_at.desc(), _page.c.session_id)


def _overview(row: Row) -> SessionOverview:
    session_id, title, metadata, *rest, shown, shown_bytes, rewound, rewound_bytes, model = row
    info = SessionInfo(session_id, title, metadata and decode(metadata), *rest)
    seen, taken_back = (
        Total(whole(shown), whole(shown_bytes)),
        Total(whole(rewound), whole(rewound_bytes)),
    )
    hidden = Total(info.messages, info.bytes) - seen - taken_back
    stats = Stats(session_id, info.last_seq, info.messages, info.bytes, *seen, *hidden, *taken_back)
    return SessionOverview(info, stats, model)

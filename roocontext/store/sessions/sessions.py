"""Sessions: found, listed in pages, and counted; and the outline of one. No content is read."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import BigInteger, and_, bindparam, or_, select

from roocontext.errors import InvalidOption
from roocontext.log.encoding import MIN_INTEGER, decode
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import Span, spans_of
from roocontext.log.times import listed, minute_of
from roocontext.log.values import Value, fields_as_json
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import SESSION_HAPPENED, of_session, sessions
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import SessionLog, SqlRow, Transaction
from roocontext.store.reading.head import read_head, read_with_head
from roocontext.store.reading.messages import CONTROLS, to_controls
from roocontext.store.reading.pages import Page, cut_page, read_cursor, rows_for, write_cursor
from roocontext.store.reading.totals import Total, rewound_total, totals_of
from roocontext.store.reading.view import visible_ranges_now
from roocontext.store.sessions.listing import ListFilter, page_of


@dataclass(frozen=True, slots=True)
class SessionInfo(Value):
    """A session of a list. `messages` and `bytes` count hidden and rewound messages too.

    `happened_at` is the session's own time: when the latest of its messages happened or, before the
    first message, when it was created. `updated_at` is when its last entry was recorded.
    `first_prompt` is the beginning of the first message that a person typed. `archived_at` is when
    the session was archived; its entries are then in a file. `owner` is that of the store that
    created it.
    """

    session_id: str
    title: str | None
    metadata: Any
    created_at: int
    happened_at: int
    updated_at: int
    head_seq: int
    last_seq: int
    messages: int
    bytes: int
    first_prompt: str | None
    parent: str | None
    archived_at: int | None
    owner: str | None = None

    @property
    def listed_at(self) -> int:
        """The time by which lists are ordered: the earlier of the two."""
        return listed(self.happened_at, self.updated_at)


@dataclass(frozen=True, slots=True)
class Stats(Value):
    """The sizes of a session: of all messages, and of the visible, hidden and rewound ones."""

    session_id: str
    entries: int
    messages: int
    bytes: int
    visible_messages: int
    visible_bytes: int
    hidden_messages: int
    hidden_bytes: int
    rewound_messages: int
    rewound_bytes: int


INFO = (
    sessions.c.session_id,
    sessions.c.title,
    sessions.c.metadata,
    sessions.c.created_at,
    SESSION_HAPPENED.label("happened_at"),
    sessions.c.updated_at,
    sessions.c.head_seq,
    sessions.c.last_seq,
    sessions.c.messages,
    sessions.c.bytes,
    sessions.c.first_prompt,
    sessions.c.parent,
    sessions.c.archived_at,
    sessions.c.owner,
)
_ONE = select(*INFO).where(of_session(sessions))
_CHILDREN = crossing(
    select(*INFO)
    .where(
        sessions.c.parent.is_not(None),
        sessions.c.parent == bindparam("parent"),
        sessions.c.purged_at.is_(None),
    )
    .order_by(sessions.c.created_at, sessions.c.session_id)
)
_created, _created_after = sessions.c.created_at, bindparam("created_at", type_=BigInteger)
_CHILDREN_AFTER = _CHILDREN.where(
    or_(
        _created > _created_after,
        and_(_created == _created_after, sessions.c.session_id > bindparam("session_id")),
    )
).limit(bindparam("page"))
_PARENT = select(sessions.c.parent).where(of_session(sessions))
_BY_ID = crossing(
    select(*INFO)
    .where(sessions.c.purged_at.is_(None))
    .order_by(sessions.c.session_id)
    .limit(bindparam("page"))
)
_FROM = _BY_ID.where(sessions.c.session_id >= bindparam("start"))
_FOLLOWING = _BY_ID.where(sessions.c.session_id > bindparam("start"))
_LISTS = ("sessions", "sessions by recording")
"""The two orders of the list, as its cursors name them."""


def refuse_cycle(log: SessionLog, parent: str | None) -> None:
    """Refuse a parent that descends from the session, which a restore may name before it exists."""
    # Only a session that has children can be an ancestor. Without this question, a line of sessions
    # that is restored from its beginning would be walked to its beginning for each of them.
    if parent != log.session_id and not log.row(_CHILDREN, parent=log.session_id):
        return
    above, seen = parent, set[str]()
    while above is not None and above not in seen:
        if above == log.session_id:
            raise InvalidOption(
                f"Session {log.session_id!r} cannot have the parent {parent!r}: it would be its own"
                " ancestor.",
                name="parent",
            )
        seen.add(above)
        row = log.row(_PARENT, session_id=above)
        above = row[0] if row else None


def info(log: SessionLog) -> SessionInfo:
    """Read one session as a list shows it."""
    _, (rows,) = read_with_head(log, [(_ONE, {})])
    return to_info(rows[0])


def parent_of(log: SessionLog) -> str | None:
    """Read the id of a session's parent, if it has one. An unknown session is an error."""
    _, (rows,) = read_with_head(log, [(_PARENT, {})])
    parent: str | None = rows[0][0]
    return parent


def children(log: SessionLog, limit: int, after: str | None) -> Page[SessionInfo]:
    """Read a page of the sessions whose parent this is, in the order of their creation."""
    name = f"children of {log.session_id}"
    created_at, last = (MIN_INTEGER, "") if after is None else read_cursor(name, after, int, str)
    place = {"parent": log.session_id, "created_at": created_at, "session_id": last}
    _, (rows,) = read_with_head(log, [(_CHILDREN_AFTER, {**place, "page": rows_for(limit)})])
    return cut_page(
        [to_info(row) for row in rows],
        limit,
        lambda last: write_cursor(name, last.created_at, last.session_id),
    )


def first_children(log: SessionLog, limit: int) -> list[SessionInfo]:
    """Read the first sessions whose parent this is, and one more if there are more."""
    place = {"parent": log.session_id, "created_at": MIN_INTEGER, "session_id": ""}
    return [to_info(row) for row in log.rows(_CHILDREN_AFTER, **place, page=rows_for(limit))]


def newest_first(
    tx: Transaction, limit: int, after: str | None, wanted: ListFilter
) -> Page[SessionInfo]:
    """Read a page of the sessions by their time, newest first."""
    recorded = wanted.shape.is_recorded
    statement = page_of(INFO, wanted.shape, continues=after is not None)
    place = place_in_list(after, recorded=recorded)
    rows = tx.rows(statement, **wanted.params, **place, page=rows_for(limit))
    infos = [to_info(row) for row in rows]
    return cut_page(infos, limit, lambda last: cursor_in_list(last, recorded=recorded))


def all_newest_first(database: Database, wanted: ListFilter, at_once: int) -> Iterator[SessionInfo]:
    """Read all these sessions by their time, newest first, a page at a time."""
    after = None
    while True:
        page = database.lookup(newest_first, at_once, after, wanted)
        yield from page
        if (after := page.next) is None:
            return


def cursor_in_list(info: SessionInfo, *, recorded: bool) -> str:
    """The cursor of the page that begins after a session."""
    # The time is not unique: `updated_at` and the id decide between equal ones.
    time = info.updated_at if recorded else info.listed_at
    return write_cursor(_LISTS[recorded], time, info.updated_at, info.session_id)


def place_in_list(after: str | None, *, recorded: bool) -> dict[str, Any]:
    """The parameters of the page that a cursor continues; none for the first page."""
    if after is None:
        return {}
    time, updated_at, session_id = read_cursor(_LISTS[recorded], after, int, int, str)
    place = {"time": time, "updated_at": updated_at, "session_id": session_id}
    return place | {"minute": minute_of(time)}


def beginning_with(
    tx: Transaction, beginning: str, limit: int, after: str | None
) -> Page[SessionInfo]:
    """Read a page of the sessions whose ids begin like this, in the order of their ids."""
    name = f"sessions beginning {beginning}"
    statement, start = _FROM, beginning
    if after is not None:
        statement, (start,) = _FOLLOWING, read_cursor(name, after, str)
    # Compared here: a LIKE pattern would have to escape ids, and ignores case on SQLite.
    rows = tx.rows(statement, start=start, page=rows_for(limit))
    infos = [to_info(row) for row in rows if row[0].startswith(beginning)]
    return cut_page(infos, limit, lambda last: write_cursor(name, last.session_id))


def stats(log: SessionLog) -> Stats:
    """Read the sizes of a session."""
    head = read_head(log)
    (visible,) = totals_of(log, [visible_ranges_now(log, head.last_seq)])
    rewound = rewound_total(log)
    hidden = Total(head.messages, head.bytes) - visible - rewound
    return Stats(
        log.session_id, head.last_seq, head.messages, head.bytes, *visible, *hidden, *rewound
    )


def to_info(row: SqlRow) -> SessionInfo:
    """Make the value of a row with these columns."""
    session_id, title, metadata, *rest = row
    return SessionInfo(session_id, title, metadata and decode(metadata), *rest)


class ControlEntry(NamedTuple):
    """An entry that hides, clears or rewinds, with its details."""

    seq: int
    kind: Kind
    details: Any

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """Entries with the same tags and no rewind among them, and how many of them are messages."""

    span: Span
    messages: int


@dataclass(frozen=True, slots=True)
class Outline(Value):
    """The control rows of a session, and the parts of its log, in the order of the log.

    A part ends before a rewind and at an entry that a rewind goes back to.
    """

    info: SessionInfo
    controls: tuple[ControlEntry, ...]
    parts: tuple[OutlinePart, ...]


def outline(log: SessionLog) -> Outline:
    """Read the outline of a session, from its control rows and running totals."""
    session = info(log)
    rows = log.rows(CONTROLS, seq=session.last_seq)
    spans = _cut(to_controls(rows), session.last_seq)
    sizes = totals_of(log, [[(span.lo, span.hi)] for span in spans])
    return Outline(
        session,
        tuple(ControlEntry(seq, Kind(kind), decode(details)) for seq, kind, details in rows),
        tuple(
            OutlinePart(span, messages) for span, (messages, _) in zip(spans, sizes, strict=True)
        ),
    )


def _cut(controls: Sequence[Control], last: int) -> list[Span]:
    """Cut the spans up to an entry at rewinds and at their targets, and leave out the rewinds."""
    spans = spans_of(controls, last)
    starts = [span.lo for span in spans]
    rewinds = {control.seq: control.to for control in controls if control.to is not None}
    # A part of the tree ends where another branch begins.
    cuts = {*starts, *rewinds, last + 1}
    cuts |= {seq + 1 for seq in (*rewinds, *rewinds.values())}
    parts = []
    for lo, end in pairwise(sorted(cut for cut in cuts if cut <= last + 1)):
        if lo not in rewinds:
            span = spans[bisect_right(starts, lo) - 1]
            parts.append(replace(span, lo=lo, hi=end - 1, position=span.at(lo)))
    return parts

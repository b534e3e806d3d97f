"""The arguments of a search, checked, and the statement that chooses its sessions.

The content of a stored message, for its text to be searched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from sqlalchemy import BigInteger, bindparam, func, select
from sqlalchemy.sql import Select

from roocontext.errors import HistoryCorrupt, InvalidOption
from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER, check_id, decode
from roocontext.log.readings import is_known
from roocontext.search.passages import Speaker
from roocontext.search.query import Among, Order, Query, parse_query
from roocontext.store.engine.check_arguments import check_whole
from roocontext.store.engine.schema import IS_HELD, sessions
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import SessionLog, Transaction
from roocontext.store.reading.families import descended
from roocontext.store.reading.head import read_head
from roocontext.store.reading.pages import read_cursor
from roocontext.store.sessions.listing import ListFilter, ListShape, restricted, wanted

MOST_HITS: Final = 1_000
MOST_ARCHIVED: Final = 1_000
"""Archived sessions that a search counts: it must not take longer with each that is archived."""
_MOST_SKIPPED: Final = 1 << 31


class MatchKey(NamedTuple):
    """A message, in the order of its time: when it happened, or was recorded."""

    time: int
    session_id: str
    seq: int


@dataclass(frozen=True)
class Search:
    """A search whose arguments were checked. It begins at a key, and skips some matches there."""

    query: Query
    scope: ListFilter
    speaker: Speaker | None
    tool: str | None
    since: int | None
    until: int | None
    among: Among
    order: Order
    limit: int
    start: MatchKey | None
    skip: int
    context: int
    is_recorded: bool

    @property
    def is_oldest_first(self) -> bool:
        """True if matches come in the order of the log."""
        return self.order == "oldest"

    def time_of(self, happened_at: int, recorded_at: int) -> int:
        """The time that is searched."""
        return recorded_at if self.is_recorded else happened_at

    def follows(self, key: MatchKey) -> bool:
        """True if a message is in the time that is searched, and not before the page."""
        return (
            (self.since is None or key.time >= self.since)
            and (self.until is None or key.time < self.until)
            and (
                self.start is None
                or (key >= self.start if self.is_oldest_first else key <= self.start)
            )
        )


def checked_search(
    query: str,
    *,
    session: str | None,
    family: str | None,
    role: Speaker | None,
    tool: str | None,
    since: datetime | None,
    until: datetime | None,
    where: Mapping[str, str] | None,
    among: Among,
    order: Order,
    limit: int,
    after: str | None,
    context: int,
    recorded: bool,
) -> Search:
    """Check what is searched for, or raise the error that says what is allowed."""
    if not isinstance(query, str):
        raise InvalidOption("The query must be a string.", name="query")
    for name, session_id in (("session", session), ("family", family)):
        if session_id is not None:
            check_id(name, session_id)
    _check_one_of("role", role, get_args(Speaker), optional=True)
    _check_one_of("among", among, get_args(Among))
    _check_one_of("order", order, get_args(Order))
    if tool is not None and not isinstance(tool, str):
        raise InvalidOption("tool must be a string: the name of a tool.", name="tool")
    check_whole("limit", limit, least=1)
    check_whole("context", context)
    if limit > MOST_HITS:
        raise InvalidOption(f"limit must be at most {MOST_HITS:,}.", name="limit")
    filters = wanted(None, where, since, until)
    params = {**filters.params, "one": session, "family": family}
    lo, hi = params.pop("since", None), params.pop("until", None)
    start, skip = None, 0
    if after is not None:
        *key, skip = read_cursor(f"search, {order}", after, int, str, int, int)
        start = MatchKey(*key)
        if not 0 <= skip <= _MOST_SKIPPED:
            raise InvalidOption("`after` is not the `next` of a page.", name="after")
    facts = filters.shape.facts
    shape = ListShape(is_one=session is not None, has_ids=family is not None, facts=facts)
    scope = ListFilter(shape, params)
    return Search(
        *(parse_query(query), scope, role, tool, lo, hi, among, order, limit, start, skip, context),
        is_recorded=bool(recorded),
    )


def _check_one_of(
    name: str, value: object, allowed: tuple[str, ...], *, optional: bool = False
) -> None:
    if not (value in allowed or (optional and value is None)):
        raise InvalidOption(f"{name} must be one of {', '.join(allowed)}.", name=name)


def with_family(tx: Transaction, search: Search) -> Search:
    """The search with the members of the family that is searched, if one is."""
    shape, params = search.scope
    if not shape.has_ids:
        return search
    members = tx.many_values(descended(SessionLog(tx, params["family"])))
    return replace(search, scope=ListFilter(shape, {**params, "ids": members}))


@cache
def in_scope(shape: ListShape, *columns: str) -> Select[Any]:
    """The sessions that are searched."""
    names = ("session_id", *columns)
    held = crossing(select(*(sessions.c[name] for name in names)).where(IS_HELD))
    return restricted(held, shape)


@cache
def _archived(shape: ListShape, *, is_recorded: bool) -> Select[Any]:
    """The sessions of the scope that are archived and not older than the search."""
    latest = sessions.c.latest_recorded if is_recorded else sessions.c.latest_happened
    archived = crossing(select(sessions.c.session_id)).where(
        sessions.c.archived_at.is_not(None),
        func.coalesce(latest, MAX_INTEGER) >= bindparam("since", type_=BigInteger),
    )
    return restricted(archived, shape).limit(bindparam("most"))


def archived_in(tx: Transaction, search: Search) -> int:
    """Count the archived sessions that may hold what is searched, up to MOST_ARCHIVED.

    If the session that is searched is one, SessionArchived is raised.
    """
    since = MIN_INTEGER if search.since is None else search.since
    params = {**search.scope.params, "since": since, "most": MOST_ARCHIVED}
    shape = search.scope.shape
    rows = tx.rows(_archived(shape, is_recorded=search.is_recorded), **params)
    if rows and shape.is_one:
        read_head(SessionLog(tx, params["one"]))
    return len(rows)


def searchable_content(
    session_id: str, seq: int, format_: str | None, role: str | None, stored: str
) -> Any:
    """The content of a message, or HistoryCorrupt if it cannot be read."""
    if is_known(format_, role):
        try:
            return decode(stored)
        except HistoryCorrupt:
            pass
    raise HistoryCorrupt(
        f"Entry {seq} of session {session_id!r} cannot be searched: its format or role is unknown,"
        " or its content is not JSON.",
        session_id=session_id,
        seq=seq,
    )

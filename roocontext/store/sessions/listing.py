"""The filters of a list of sessions, and the statement that reads a page of it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Column, and_, bindparam, or_, select
from sqlalchemy.sql import ColumnElement, Select

from roocontext.errors import InvalidOption
from roocontext.log.encoding import check_id
from roocontext.log.moments import milliseconds
from roocontext.log.times import minute_of
from roocontext.store.engine.check_arguments import check_mapping
from roocontext.store.engine.schema import facts, sessions
from roocontext.store.engine.statements import OneOf, crossing
from roocontext.store.reading.usage import ACTIVE
from roocontext.store.writing.shown import index_key

MOST_FACTS = 8
"""Each number of conditions needs its own statement, and compiled statements stay in memory."""


class ListShape(NamedTuple):
    """The parts of a filter that change the statement."""

    has_parent: bool = False
    facts: int = 0
    has_since: bool = False
    has_until: bool = False
    is_recorded: bool = False
    is_one: bool = False
    has_ids: bool = False


class ListFilter(NamedTuple):
    """The sessions that are listed or searched: by their parent, metadata, time or ids.

    A cluster asks a single node for one session, and all nodes for several ids.
    """

    shape: ListShape
    params: Mapping[str, Any]


def indexed_facts(where: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Check the strings that metadata must have, and return them as they are indexed."""
    conditions = {} if where is None else where
    check_mapping("where", conditions)
    if len(conditions) > MOST_FACTS:
        raise InvalidOption(f"where takes at most {MOST_FACTS} conditions.", name="where")
    if not all(isinstance(text, str) for pair in conditions.items() for text in pair):
        raise InvalidOption("The keys and values of where must be strings.", name="where")
    return [(index_key(key), index_key(value)) for key, value in conditions.items()]


def wanted(
    parent: str | None,
    where: Mapping[str, str] | None,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    recorded: bool = False,
    ids: Collection[str] | None = None,
) -> ListFilter:
    """Check the filters of a list; InvalidOption says which values are allowed."""
    params: dict[str, Any] = {}
    if parent is not None:
        check_id("parent", parent)
        params["parent"] = parent
    if ids is not None:
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InvalidOption("ids must be a list of ids.", name="ids")
        params["ids"] = list(ids)
        for name in params["ids"]:
            check_id("ids", name)
    indexed = indexed_facts(where)
    for number, (key, value) in enumerate(indexed):
        params |= {f"key_{number}": key, f"value_{number}": value}
    for name, moment in (("since", since), ("until", until)):
        if moment is None:
            continue
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InvalidOption(f"{name} must be a datetime with a time zone.", name=name)
        params[name] = milliseconds(moment)
        params[f"{name}_minute"] = minute_of(params[name])
    times = since is not None, until is not None, bool(recorded)
    has_ids = ids is not None
    return ListFilter(ListShape(parent is not None, len(indexed), *times, has_ids=has_ids), params)


def _after(minute: Column[int], time: Column[int]) -> ColumnElement[bool]:
    """The sessions that come later in the list than the place of a cursor."""
    updated, updated_at = sessions.c.updated_at, bindparam("updated_at", type_=BigInteger)
    greater = sessions.c.session_id > bindparam("session_id")
    later = or_(updated < updated_at, and_(updated == updated_at, greater))
    at = bindparam("time", type_=BigInteger)
    return and_(minute <= bindparam("minute"), or_(time < at, and_(time == at, later)))


@cache
def page_of(
    columns: tuple[ColumnElement[Any], ...], shape: ListShape, *, continues: bool
) -> Select[Any]:
    """The statement for a page of the sessions, newest first: the first page, or one that follows.

    They are listed, and found by their time, by the earlier of when they happened and when their
    last entry was recorded, or by the latter alone.
    """
    name = "updated" if shape.is_recorded else "listed"
    minute, time = sessions.c[f"{name}_minute"], sessions.c[f"{name}_at"]
    page = crossing(
        select(*columns)
        .where(sessions.c.purged_at.is_(None), *([_after(minute, time)] if continues else ()))
        # By the indexed minute first: an order by the time alone would sort all sessions.
        .order_by(minute.desc(), time.desc(), sessions.c.updated_at.desc(), sessions.c.session_id)
        .limit(bindparam("page"))
    )
    # By the minute too, which is indexed.
    if shape.has_since:
        page = page.where(minute >= bindparam("since_minute"), time >= bindparam("since"))
    if shape.has_until:
        page = page.where(minute <= bindparam("until_minute"), time < bindparam("until"))
    return restricted(page, shape)


@cache
def active_sessions(shape: ListShape) -> Select[Any]:
    """The statement for the sessions of a filter whose usage is read."""
    return restricted(ACTIVE, shape)


def restricted(statement: Select[Any], shape: ListShape) -> Select[Any]:
    """A statement about sessions, for those of a filter, whatever their times."""
    if shape.is_one:
        statement = statement.where(sessions.c.session_id == bindparam("one"))
    if shape.has_ids:
        statement = statement.where(OneOf(sessions.c.session_id, "ids"))
    if shape.has_parent:
        is_child = sessions.c.parent.is_not(None), sessions.c.parent == bindparam("parent")
        statement = statement.where(*is_child)
    for number in range(shape.facts):
        fact = facts.alias(f"fact_{number}")
        statement = statement.join(
            fact,
            and_(
                fact.c.session_id == sessions.c.session_id,
                fact.c.key == bindparam(f"key_{number}"),
                fact.c.value == bindparam(f"value_{number}"),
            ),
        )
    return statement

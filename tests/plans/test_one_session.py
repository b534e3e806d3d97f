"""Statements of one session name it for each table, so that one node of many can run them alone.

A distributed engine keeps all rows of a session together. It runs a statement on one node if it
compares `session_id` with a constant for each table that the statement touches, in every subquery.
What concerns several sessions is marked with `crossing`.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from sqlalchemy import Executable, Table, bindparam, select, text, update
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import Delete, Insert, Update
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BindParameter,
    BooleanClauseList,
    ClauseElement,
    TextClause,
)
from sqlalchemy.sql.selectable import CompoundSelect, FromClause, Join, Select

import roocontext.store
from roocontext import NewMessage, Store
from roocontext.log.counting import BYTES
from roocontext.store.engine.schema import entries, metadata, sessions
from roocontext.store.engine.statements import compiled_statements, crossing, is_crossing


def unnamed(statement: ClauseElement, around: tuple[FromClause, ...] = ()) -> Iterator[str]:
    """The tables of a statement, and of its subqueries, for which it names no session."""
    match statement:
        case TextClause():
            yield from _unnamed_in_text(statement.text)
            return
        case Insert():
            if statement.select is not None:
                yield from unnamed(statement.select)
            return
        case CompoundSelect():
            for part in statement.selects:
                yield from unnamed(part, around)
            return
        case Update() | Delete():
            tables, conditions = [statement.table], list(_conditions(statement.whereclause))
        case Select():
            tables, conditions = [], list(_conditions(statement.whereclause))
            for source in statement.get_final_froms():
                of_source, on = _joined(source)
                tables += of_source
                conditions += on
        case _:
            raise AssertionError(f"{type(statement).__name__} is no statement that is known here")
    # A correlated subquery also names tables of the statement around it.
    own = [table for table in tables if table not in around] or tables
    named = list(_named(conditions))
    for table in own:
        is_stored = isinstance(getattr(table, "element", table), Table)
        if is_stored and table not in named:
            yield str(getattr(table, "name", table))
    for subquery in _subqueries(statement):
        yield from unnamed(subquery, (*around, *tables))


def _unnamed_in_text(written: str) -> Iterator[str]:
    if not re.search(r"session_id = :session_id|\(session_id, .* VALUES \(:session_id, ", written):
        yield from (table for table in metadata.tables if re.search(rf"\b{table}\b", written))


def _conditions(clause: Any) -> Iterator[ClauseElement]:
    """The conditions that must all be true."""
    if isinstance(clause, BooleanClauseList) and clause.operator is operators.and_:
        for part in clause.clauses:
            yield from _conditions(part)
    elif clause is not None:
        yield clause


def _joined(source: FromClause) -> tuple[list[FromClause], list[ClauseElement]]:
    if not isinstance(source, Join):
        return [source], []
    left, of_left = _joined(source.left)
    right, of_right = _joined(source.right)
    return [*left, *right], [*of_left, *of_right, *_conditions(source.onclause)]


def _named(conditions: list[ClauseElement]) -> Iterator[FromClause]:
    for condition in conditions:
        if isinstance(condition, BinaryExpression) and condition.operator is operators.eq:
            column, value = condition.left, condition.right
            if isinstance(value, BindParameter) and getattr(column, "name", "") == "session_id":
                yield column.table


def _subqueries(element: ClauseElement) -> Iterator[ClauseElement]:
    for child in element.get_children():
        if isinstance(child, Select | CompoundSelect):
            yield child
        elif not isinstance(getattr(child, "element", child), Table):
            yield from _subqueries(child)


def _statements(value: Any) -> Iterator[Executable]:
    is_command = isinstance(value, TextClause) and value.text.startswith(("INSERT", "UPDATE"))
    if is_command or isinstance(value, Select | Insert | Update | Delete):
        yield value
    elif isinstance(value, dict):
        yield from _statements([*value.values()])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _statements(one)


def _of_modules() -> dict[str, Executable]:
    """The statements that modules hold as constants; names in lower case are parts of others."""
    found = {}
    for module in walk_packages(roocontext.store.__path__, "roocontext.store."):
        for name, value in vars(import_module(module.name)).items():
            if name.isupper():
                for number, statement in enumerate(_statements(value)):
                    found[f"{module.name}.{name}.{number}"] = statement
    return found


CONSTANTS = _of_modules()


def test_statement_names_its_session_for_each_table():
    missing = {
        name: tables
        for name, statement in CONSTANTS.items()
        if not is_crossing(statement) and (tables := list(unnamed(statement)))
    }
    assert missing == {}


def test_crossing_statement_is_marked_for_a_reason():
    """A statement that names one session everywhere is not marked, so that marks mean something."""
    needless = [
        name
        for name, statement in CONSTANTS.items()
        if is_crossing(statement)
        and not isinstance(statement, Insert)
        and not [*unnamed(statement)]
    ]
    assert needless == []


def test_statement_built_for_a_call_names_its_session_too():
    with Store.open(":memory:") as store:
        chat = store.create(metadata={"user": "u"})
        chat.append_many([NewMessage("user", "hello", client_id=name) for name in "abc"])
        chat.append_many([NewMessage("user", "hello", client_id=name) for name in "abc"])
        chat.append("assistant", "hi", ts=5, model="m")
        chat.tokens(BYTES)
        store.sessions(where={"user": "u"})
        store.overview(where={"user": "u"})
        store.search("hello", family=chat.id)
        store.index()
        store.search("hello", where={"user": "u"})
        chat.fork(2)
        chat.redact(2)
        store.purge(chat.id)
        store.drop_index()
    compiled = compiled_statements("sqlite")
    assert len(compiled) > len(CONSTANTS) / 4
    for statement in compiled:
        if not is_crossing(statement):
            assert list(unnamed(statement)) == [], str(statement)


# The check itself


session_is_named = entries.c.session_id == bindparam("session_id")
of_the_entry = sessions.c.session_id == entries.c.session_id
its_last = select(sessions.c.last_seq).where(of_the_entry).scalar_subquery()


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        (select(entries.c.seq), ["entries"]),
        (select(entries.c.seq).where(session_is_named), []),
        (select(entries.c.seq).where(session_is_named | (entries.c.seq == 1)), ["entries"]),
        (select(entries.c.seq).where(session_is_named, entries.c.seq <= its_last), ["sessions"]),
        (select(entries.c.seq).join(sessions, of_the_entry).where(session_is_named), ["sessions"]),
        (update(sessions).values(title="x"), ["sessions"]),
        (text("UPDATE sessions SET title = 'x'"), ["sessions"]),
        (text("UPDATE sessions SET title = 'x' WHERE session_id = :session_id"), []),
    ],
)
def test_table_without_its_session_is_found(statement, tables):
    assert list(unnamed(statement)) == tables


def test_mark_stays_on_what_is_made_of_the_statement():
    assert is_crossing(crossing(select(entries.c.seq)).where(entries.c.seq == 1).limit(1))
    assert not is_crossing(select(entries.c.seq))

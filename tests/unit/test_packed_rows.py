"""Rows that SQLite packs into one text are those that it returns one by one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from roocontext.errors import HistoryCorrupt
from roocontext.store.engine.schema import entries
from roocontext.store.engine.statements import compiler
from roocontext.store.engine.transaction import Transaction

QUERY = (
    select(entries.c.seq, entries.c.tools, entries.c.answers_seq)
    .where(entries.c.seq >= bindparam("first"))
    .order_by(entries.c.seq.desc())
)
ROWS = [(1, '["call","a"]', None), (2, '["result","a\\ud800\\n"]', 1), (3, "ä\n", 1 << 62)]


@pytest.fixture
def tx() -> Iterator[Transaction]:
    """A transaction on a table without checks."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE entries (seq, tools, answers_seq)")
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", ROWS)
        compiled = compiler(SQLiteDialect_pysqlite())
        yield Transaction(connection, compiled)


@pytest.mark.parametrize("first", [1, 3, 4])
def test_the_rows_are_the_same(tx: Transaction, first: int) -> None:
    queries = [(QUERY, {"first": first}), (QUERY, {"first": 2})]
    assert tx.all_packed(queries) == tx.all(queries)


@pytest.mark.parametrize(
    ("seq", "tools"), [(4, b"x"), (4, 7), (4.5, "x"), (None, "x"), (4, "CAST(x'ff' AS TEXT)")]
)
def test_a_damaged_row_is_named(tx: Transaction, seq: Any, tools: Any) -> None:
    text = tools if isinstance(tools, str) and "CAST" in tools else "?"
    values = (seq,) if text != "?" else (seq, tools)
    tx.connection.execute(f"INSERT INTO entries VALUES (coalesce(?, 4), {text}, 1)", values)
    if seq is None:
        tx.connection.execute("UPDATE entries SET answers_seq = 'x' WHERE seq = 4")
    with pytest.raises(HistoryCorrupt):
        tx.all_packed([(QUERY, {"first": 1})])

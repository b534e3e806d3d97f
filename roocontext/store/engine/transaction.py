"""Statements run on one connection: queries, changes, and several of them at once.

Statements are SQLAlchemy Core, compiled once for the dialect and run on the driver's connection.
This is how they run on SQLite, where each runs at once; `postgres` has what a server needs.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NoReturn, TypeAlias

from sqlalchemy.sql import ClauseElement, Insert, Update

from roocontext.errors import RooContextError
from roocontext.store.engine import forks
from roocontext.store.engine.driver_errors import (
    UniqueViolation,
    driver_errors,
    raise_ours,
    translated,
)
from roocontext.store.engine.shapes import checked_rows
from roocontext.store.engine.statements import ALL, Compiled, Compilers, StoreScope

SqlRow: TypeAlias = tuple[Any, ...]
Query: TypeAlias = tuple[ClauseElement, Mapping[str, Any]]
Command: TypeAlias = tuple[str, Sequence[Any]]
"""A statement as the driver takes it, with its parameters."""
TransactionMode: TypeAlias = Literal["write", "read", "single"]
"""What is begun: a write, a snapshot for reading, or nothing, so that each statement is single."""
Taken: TypeAlias = Callable[[], RooContextError]
"""Makes the error for a row whose key exists already."""


class Transaction:
    """Statements run in one transaction, or each in its own.

    If it `has_round_trips`, one statement that does more is faster than several. If it
    `is_distributed`, the sessions may be on several nodes, which no statement can join.
    """

    has_round_trips = False
    is_distributed = False

    def __init__(self, connection: Any, compilers: Compilers) -> None:
        self.connection = connection
        self._compilers = compilers
        self._scope = ALL
        self._compiled = compilers(ALL.shape)
        # The drivers would make a cursor for each statement; one is enough, because the rows of a
        # statement are fetched before the next one runs.
        self._run = connection.cursor().execute
        self._is_open = False
        self.is_sound = True
        self.is_inherited = False

    def begin(self, mode: TransactionMode, scope: StoreScope) -> None:
        """Begin a transaction. Every query finds the sessions of the scope only."""
        self.narrow(scope)
        self._is_open = mode != "single"
        if mode != "single":
            # A write takes the lock at once. A plain BEGIN takes it at the first change, and if
            # another writer committed in between, SQLite refuses that change however long it would
            # wait (0003).
            self.command("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")

    @property
    def copies_rows(self) -> bool:
        """True if the database can copy the rows of one session into another."""
        return True

    @property
    def owner(self) -> str | None:
        """The owner of all sessions that are found, and of those that are created."""
        return self._scope.owner

    @property
    def is_filtered(self) -> bool:
        """True if only sessions with some metadata are found: a new one might not be."""
        return bool(self._scope.shape.facts)

    def narrow(self, scope: StoreScope) -> None:
        """Find the sessions of a scope only, in what follows."""
        self._scope = scope
        self._compiled = self._compilers(scope.shape)

    def commit(self, checks: Sequence[Command] = ()) -> None:  # noqa: ARG002 - of a server
        """Commit what was begun, unless one of a server's `checks` fails."""
        self._end("COMMIT")

    def roll_back(self) -> None:
        """Take back what was changed since the beginning."""
        self._end("ROLLBACK")

    def reset(self) -> bool:
        """Roll back what an operation left open; whether the connection can be used again."""
        with suppress(sqlite3.Error):  # one of another kind says that it is closed
            # Also before it is closed: a cursor that a traceback keeps also keeps the connection.
            if self.connection.in_transaction:
                self._run("ROLLBACK")
            return self.is_sound
        return False

    def rows(self, statement: ClauseElement, **params: Any) -> list[SqlRow]:
        """All rows of a query."""
        cursor = self._execute(statement, params)
        try:
            rows: list[SqlRow] = cursor.fetchall()
        except driver_errors() as error:  # found only on the way: a damaged page
            raise_ours(error)
        # Even a row of our own table may hold any type: SQLite stores what it is given (0020).
        return checked_rows(statement, rows)

    def row(self, statement: ClauseElement, **params: Any) -> SqlRow | None:
        """The first row of a query."""
        cursor = self._execute(statement, params)
        try:
            row: SqlRow | None = cursor.fetchone()
        except driver_errors() as error:
            raise_ours(error)
        return row and checked_rows(statement, [row])[0]

    def run(self, statement: ClauseElement, **params: Any) -> int:
        """Run a change, and return how many rows it changed."""
        count: int = self._execute(statement, params).rowcount
        return count

    def change(self, statement: ClauseElement, **params: Any) -> None:
        """Run a change. On PostgreSQL it is sent with the next query, or with the COMMIT."""
        compiled = self._compiled(statement)
        self._send(compiled.text, self._bound(compiled, params))

    def put(self, statement: Insert | Update, values: SqlRow) -> None:
        """The same, with the values in the order of the statement's parameters."""
        self._send(self._compiled(statement).text, values)

    def insert(self, statement: Insert, *rows: SqlRow, taken: Taken | None = None) -> None:
        """Insert rows whose values are in the order of the table's columns.

        `taken` makes the error for a key that exists; without it, that is a UniqueViolation.
        """
        text = self._compiled(statement).text
        try:
            if len(rows) == 1:
                self._run(text, rows[0])
            else:
                self.connection.cursor().executemany(text, rows)
        except driver_errors() as error:
            raise_taken(error, taken)

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make one change for each row."""
        if rows:
            compiled = self._compiled(statement)
            with translated():
                values = [self._bound(compiled, row) for row in rows]
                self.connection.cursor().executemany(compiled.text, values)

    def each(self, statement: ClauseElement, params: Sequence[Mapping[str, Any]]) -> list[SqlRow]:
        """The rows of one query run with each of these parameters, one after the other."""
        return [row for rows in self.all([(statement, each) for each in params]) for row in rows]

    def all(self, queries: Sequence[Query]) -> list[list[SqlRow]]:
        """The rows of each query, asked for at once where that saves round trips."""
        return [self.rows(statement, **params) for statement, params in queries]

    def many_values(self, values: Sequence[str]) -> Any:
        """The parameter of a `OneOf` for these values."""
        return json.dumps(values)

    def command(self, text: str) -> SqlRow | None:
        """Run a command that takes no parameters, such as BEGIN; its first row, if it has any."""
        return first_row(self._ask(text))

    def call(self, function: str, values: Sequence[Any]) -> SqlRow | None:
        """Call a function of the schema on a server; the first row that it returns."""
        return first_row(self._ask(_call_of(function, len(values)), values))

    def exclude_others(self, key: bytes) -> None:
        """Keep other writes with this key waiting. On SQLite there is only one write at a time."""

    def disown(self) -> None:
        """In a forked child: refuse every further statement."""
        self.is_inherited = True
        self.connection = self._run = forks.Inherited()

    def _end(self, command: str) -> None:
        if self._is_open:
            self.command(command)
        self._is_open = False

    def _execute(self, statement: ClauseElement, params: Mapping[str, Any]) -> Any:
        compiled = self._compiled(statement)
        return self._ask(compiled.text, self._bound(compiled, params))

    def _bound(self, compiled: Compiled, params: Mapping[str, Any]) -> tuple[Any, ...]:
        return compiled.bind({**params, **self._scope.params})

    def _send(self, text: str, values: Sequence[Any]) -> None:
        """Run a statement whose result is not used."""
        self._ask(text, values)

    def _ask(self, text: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement; its cursor."""
        try:
            return self._run(text, values)
        except driver_errors() as error:
            raise_ours(error)


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The log of one session in a transaction. Its statements are given the id of the session."""

    tx: Transaction
    session_id: str

    def of(self, session_id: str) -> "SessionLog":
        """The log of another session in the same transaction."""
        return SessionLog(self.tx, session_id)

    def rows(self, statement: ClauseElement, **params: Any) -> list[SqlRow]:
        """See Transaction."""
        return self.tx.rows(statement, **self._named(params))

    def row(self, statement: ClauseElement, **params: Any) -> SqlRow | None:
        """See Transaction."""
        return self.tx.row(statement, **self._named(params))

    def run(self, statement: ClauseElement, **params: Any) -> int:
        """See Transaction."""
        return self.tx.run(statement, **self._named(params))

    def change(self, statement: ClauseElement, **params: Any) -> None:
        """See Transaction."""
        self.tx.change(statement, **self._named(params))

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """See Transaction."""
        self.tx.many(statement, list(map(self._named, rows)))

    def each(self, statement: ClauseElement, params: Iterable[Mapping[str, Any]]) -> list[SqlRow]:
        """See Transaction."""
        return self.tx.each(statement, list(map(self._named, params)))

    def all(self, queries: Sequence[Query]) -> list[list[SqlRow]]:
        """See Transaction."""
        return self.tx.all([(statement, self._named(params)) for statement, params in queries])

    def _named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"session_id": self.session_id, **params}


@cache
def _call_of(function: str, count: int) -> str:
    return f"SELECT * FROM {function}({', '.join(f'${n + 1}' for n in range(count))})"  # noqa: S608


def first_row(cursor: Any) -> SqlRow | None:
    """The first row of what a command returned, if it returns rows."""
    row: SqlRow | None = cursor.fetchone() if cursor.description else None
    return row


def raise_taken(error: BaseException, taken: Taken | None) -> NoReturn:
    """Raise our error for a driver's error, and `taken` for a key that exists."""
    try:
        raise_ours(error)
    except UniqueViolation:
        if taken is None:
            raise
        raise taken() from None

"""Statements run on one connection: queries, changes, and several of them at once.

Statements are SQLAlchemy Core, compiled once for the dialect and run on the driver's connection.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
from sqlalchemy.sql import ClauseElement, Insert, Update

from roocontext.store.engine import forks
from roocontext.store.engine.driver_errors import driver_errors, raise_ours, translated
from roocontext.store.engine.shapes import checked_row, checked_rows, unpacked_rows
from roocontext.store.engine.statements import Compiled

SqlRow: TypeAlias = tuple[Any, ...]
Query: TypeAlias = tuple[ClauseElement, Mapping[str, Any]]


class Transaction:
    """Statements run in one transaction, or each in its own."""

    def __init__(
        self,
        connection: Any,
        cursor: Callable[[Any], Any],
        compiled: Callable[[ClauseElement], Compiled],
        dialect: str,
    ) -> None:
        self.connection = connection
        self.dialect = dialect
        self._cursor = cursor
        self._compiled = compiled
        self._pipeline = getattr(connection, "pipeline", None)
        # The drivers would make a cursor for each statement; one is enough, because the rows of a
        # statement are fetched before the next one runs.
        self._run = self._run_alone = cursor(connection).execute
        self._is_together = False
        # Kept until the first statement, and dropped if none comes: an empty transaction costs
        # nothing.
        self._beginning: str | None = None
        self._is_open = False
        self.is_sound = True
        self.is_inherited = False

    def begin(self, command: str | None) -> None:
        """Begin a transaction; without a command, each statement is one of its own.

        On PostgreSQL the command goes to the server with the first statement: no round trip of its
        own.
        """
        self._beginning = command
        self._is_open = command is not None
        if self._pipeline is None and command is not None:
            self._beginning = None
            self.command(command)

    def commit(self) -> None:
        """Commit what was begun, unless that was sent with the last changes."""
        self._end("COMMIT")

    def roll_back(self) -> None:
        """Take back what was changed since the beginning."""
        self._end("ROLLBACK")

    def _end(self, command: str) -> None:
        if self._beginning is None and self._is_open:
            self.command(command)
        self._beginning = None  # nothing was asked, so nothing was begun
        self._is_open = False

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
        return row and checked_row(statement, row)

    def run(self, statement: ClauseElement, **params: Any) -> int:
        """Run a change, and return how many rows it changed."""
        count: int = self._execute(statement, params).rowcount
        return count

    def put(self, statement: Insert | Update, values: SqlRow) -> None:
        """Make one change, with its values in the order of the statement's parameters."""
        compiled = self._compiled(statement)
        try:
            self._begin_now()
            self._run(compiled.text, values)
        except driver_errors() as error:
            raise_ours(error)

    def insert(self, statement: Insert, *rows: SqlRow) -> None:
        """Insert rows whose values are in the order of the table's columns."""
        if len(rows) == 1:
            self.put(statement, rows[0])
            return
        compiled = self._compiled(statement)
        try:
            self._begin_now()
            # A pipeline cannot hold a COPY (0004).
            if self._pipeline is None or self._is_together:
                self._cursor(self.connection).executemany(compiled.text, rows)
            else:  # COPY is one message to the server; executemany sends one for each row
                names = ", ".join(compiled.names)
                self._copy(f"COPY {statement.table.name} ({names}) FROM STDIN", rows)
        except driver_errors() as error:
            raise_ours(error)

    def _copy(self, command: str, rows: Sequence[SqlRow]) -> None:
        with self.connection.cursor() as cursor, cursor.copy(command) as copy:
            for row in rows:
                copy.write_row(row)

    def each(
        self,
        statement: ClauseElement,
        params: Sequence[Mapping[str, Any]],
        *,
        is_last: bool = False,
    ) -> list[SqlRow]:
        """The rows of one query run with each of these parameters, one after the other."""
        queries = [(statement, one) for one in params]
        return [row for rows in self.all(queries, is_last=is_last) for row in rows]

    def all(self, queries: Sequence[Query], *, is_last: bool = False) -> list[list[SqlRow]]:
        """The rows of each query, asked for at once where that saves round trips.

        If they are the last ones of the transaction, PostgreSQL ends it without another round trip.
        """
        # SQLite has no round trips to save.
        if self._pipeline is None or len(queries) + is_last < 2:
            return [self.rows(statement, **params) for statement, params in queries]
        with self.together(is_last=is_last):
            cursors = [self._execute(statement, params) for statement, params in queries]
        # Inside, the first one fetched would be a round trip, and the end of the block another.
        return [
            checked_rows(query[0], cursor.fetchall())
            for query, cursor in zip(queries, cursors, strict=True)
        ]

    def all_packed(self, queries: Sequence[Query]) -> list[list[SqlRow]]:
        """The same for queries with few short columns, which may return thousands of rows."""
        if self._pipeline is not None:
            return self.all(queries)
        return [self._unpacked(*query) for query in queries]

    def _unpacked(self, statement: ClauseElement, params: Mapping[str, Any]) -> list[SqlRow]:
        # SQLite's driver takes as long for a short row as SQLite takes to find it.
        compiled = self._compiled(statement)
        try:
            (packed,) = self._run(compiled.packed, compiled.bind(params)).fetchone()
            return unpacked_rows(statement, packed)
        except (sqlite3.Error, msgspec.MsgspecError):
            # A value is damaged, or this SQLite has no JSON: the rows themselves show it.
            return self.rows(statement, **params)

    @contextmanager
    def together(self, *, is_last: bool = False) -> Iterator[None]:
        """Send statements without waiting for each; what is wrong with one is raised at the end.

        If they are the last ones of the transaction, PostgreSQL commits them without another round
        trip. If one of them fails, it skips the COMMIT.
        """
        if self._pipeline is None:
            yield
            return
        # What the caller is handling already is not an interrupt of this block.
        handled = sys.exception()
        try:
            self._is_together = True
            self._run = self._run_apart
            with translated(), self._pipeline():
                self._begin_now()
                yield
                if is_last and self._is_open:
                    self._run("COMMIT")
                    self._is_open = False
        except BaseException as error:
            # What was prepared on the way may be unknown to the server: never use it again.
            self.is_sound = False
            interrupt = _interrupt_behind(error, handled)
            if interrupt is not None:
                raise interrupt from None
            raise
        finally:
            self._is_together = False
            self._run = self._run_alone

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make one change for each row."""
        if len(rows) == 1:
            self._execute(statement, rows[0])
        elif rows:
            compiled = self._compiled(statement)
            with translated():
                self._begin_now()
                cursor = self._cursor(self.connection)
                cursor.executemany(compiled.text, [compiled.bind(row) for row in rows])

    def command(self, text: str) -> SqlRow | None:
        """Run a command that takes no parameters, such as BEGIN; its first row, if it has any."""
        try:
            self._begin_now()
            cursor = self._run(text)
        except driver_errors() as error:
            raise_ours(error)
        row: SqlRow | None = cursor.fetchone() if cursor.description else None
        return row

    def disown(self) -> None:
        """In a forked child: refuse every further statement."""
        self.is_inherited = True
        self.connection = self._run = self._run_alone = forks.Inherited()
        self._pipeline = None

    def _run_apart(self, *statement: Any) -> Any:
        """Run a statement whose rows are fetched when later ones were sent."""
        return self._cursor(self.connection).execute(*statement)

    def _begin_now(self) -> None:
        if self._beginning is not None:
            command, self._beginning = self._beginning, None
            self._run(command)

    def _execute(self, statement: ClauseElement, params: Mapping[str, Any]) -> Any:
        # The first statement takes the BEGIN along.
        if self._beginning is not None and not self._is_together:
            with self.together():
                return self._execute(statement, params)
        compiled = self._compiled(statement)
        try:
            return self._run(compiled.text, compiled.bind(params))
        except driver_errors() as error:
            raise_ours(error)


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """The interrupt that an error replaced, if any, since another one was being handled.

    If an interrupt lands while the driver ends a pipeline, the driver raises an error of its own.
    """
    if not isinstance(error, Exception):
        return None
    behind = error.__context__
    while behind is not None and behind is not handled:
        if not isinstance(behind, Exception):
            return behind
        behind = behind.__context__
    return None

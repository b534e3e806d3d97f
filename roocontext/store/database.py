"""One database: its connections, its transactions, and running them again.

Statements are SQLAlchemy Core, compiled once for the dialect and run on the driver's connection.
Idle connections wait on a stack; there are never more of them than there were threads at once.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql import ClauseElement

from roocontext.errors import HistoryCorrupt, StoreClosed, StoreUnavailable
from roocontext.store.engines import BUSY_TIMEOUT_S, Engine, Lock
from roocontext.store.faults import (
    RETRYABLE,
    UniqueViolation,
    driver_errors,
    raise_ours,
    translated,
)
from roocontext.store.shapes import checked

Row: TypeAlias = tuple[Any, ...]
Query: TypeAlias = tuple[ClauseElement, Mapping[str, Any]]
Result = TypeVar("Result")

ATTEMPTS = 8
ERASE_TIMEOUT_S = 1


class _Compiled:
    """A statement's text for one dialect, and how to give it its parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._constants = {k: v for k, v in compiled.params.items() if v is not None}
        order: Sequence[str] | None = getattr(compiled, "positiontup", None)
        self._named = order is None
        self._pick = itemgetter(*order) if order else tuple
        self._one = order is not None and len(order) == 1

    def bind(self, params: Mapping[str, Any]) -> Any:
        given = {**self._constants, **params} if self._constants else params
        if self._named:
            return given
        return (self._pick(given),) if self._one else self._pick(given)


class Transaction:
    """Statements run in one transaction, or each in its own."""

    def __init__(self, connection: Any, compiled: Callable[[ClauseElement], _Compiled]) -> None:
        self.connection = connection
        self._run = connection.execute
        self._compiled = compiled
        self._pipeline = getattr(connection, "pipeline", None)
        self.is_sound = True

    def rows(self, statement: ClauseElement, **params: Any) -> list[Row]:
        """All rows of a query."""
        cursor = self._execute(statement, params)
        try:
            rows: list[Row] = cursor.fetchall()
        except driver_errors() as error:  # found only on the way: a damaged page
            raise_ours(error)
        return checked(statement, rows)

    def row(self, statement: ClauseElement, **params: Any) -> Row | None:
        """The first row of a query."""
        cursor = self._execute(statement, params)
        try:
            row: Row | None = cursor.fetchone()
        except driver_errors() as error:
            raise_ours(error)
        return row and checked(statement, [row])[0]

    def run(self, statement: ClauseElement, **params: Any) -> int:
        """How many rows a change changed."""
        count: int = self._execute(statement, params).rowcount
        return count

    def insert(self, statement: ClauseElement, values: tuple[Any, ...]) -> None:
        """Insert a row whose values are in the order of the table's columns. SQLite only."""
        try:
            self._run(self._compiled(statement).text, values)
        except driver_errors() as error:
            raise_ours(error)

    def each(self, statement: ClauseElement, params: Sequence[Mapping[str, Any]]) -> list[Row]:
        """The rows of one query run with each of these parameters, one after the other."""
        return [row for rows in self.all([(statement, one) for one in params]) for row in rows]

    def all(self, queries: Sequence[Query]) -> list[list[Row]]:
        """The rows of each query, asked for at once where that saves round trips."""
        if self._pipeline is None or len(queries) < 2:
            return [self.rows(statement, **params) for statement, params in queries]
        with self.together():
            cursors = [self._execute(statement, params) for statement, params in queries]
            rows = [cursor.fetchall() for cursor in cursors]
        return [checked(query[0], found) for query, found in zip(queries, rows, strict=True)]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send changes without waiting for each; what is wrong with one is raised at the end."""
        if self._pipeline is None:
            yield
            return
        try:
            with translated(), self._pipeline():
                yield
        except BaseException:
            # What was prepared on the way may be unknown to the server: never use it again.
            self.is_sound = False
            raise

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make one change for each row."""
        if len(rows) == 1:
            self._execute(statement, rows[0])
        elif rows:
            compiled = self._compiled(statement)
            with translated():
                cursor = self.connection.cursor()
                cursor.executemany(compiled.text, [compiled.bind(row) for row in rows])

    def command(self, text: str) -> Row | None:
        """Run a command that takes no parameters, such as BEGIN; its first row, if it has any."""
        try:
            cursor = self._run(text)
        except driver_errors() as error:
            raise_ours(error)
        row: Row | None = cursor.fetchone() if cursor.description else None
        return row

    def _execute(self, statement: ClauseElement, params: Mapping[str, Any]) -> Any:
        compiled = self._compiled(statement)
        try:
            return self._run(compiled.text, compiled.bind(params))
        except driver_errors() as error:
            raise_ours(error)


class Database:
    """One database, shared by threads. A forked child begins with connections of its own."""

    def __init__(self, engine: Engine) -> None:
        self.dialect = engine.dialect.name
        self._engine = engine
        self._statements: dict[ClauseElement, _Compiled] = {}
        self._closed = False
        self._begin_life()

    def write(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation in a transaction, again when another writer was in the way."""
        return self._repeated(self._engine.begin_write, operation, args, kwargs)

    def single(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation whose statements are transactions of their own."""
        return self._repeated(None, operation, args, kwargs)

    def snapshot(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation that only reads."""
        with self.read() as tx:
            return operation(tx, *args, **kwargs)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot: everything read in it is of the same moment. Never waits for a writer."""
        self._notice_fork()
        with self._reader, self._taken() as tx:
            tx.command(self._engine.begin_read)
            try:
                yield tx
            except BaseException:
                with suppress(StoreUnavailable):  # nothing is lost with a reader's connection
                    tx.command("ROLLBACK")
                raise
            tx.command("COMMIT")

    @contextmanager
    def inspection(self, *, write: bool = False) -> Iterator[Connection]:
        """A SQLAlchemy connection in a transaction, for what looks at the schema or changes it."""
        self._notice_fork()
        lock, begin = (
            (self._writer, self._engine.begin_write)
            if write
            else (self._reader, self._engine.begin_read)
        )
        with lock, self._taken() as tx, translated():
            engine = create_engine(
                f"{self.dialect}+{self._engine.dialect.driver}://",
                creator=lambda: tx.connection,
                poolclass=StaticPool,
            )
            with engine.connect() as connection:
                connection.exec_driver_sql(begin)
                try:
                    yield connection
                except BaseException:
                    with suppress(DBAPIError):  # some faults have ended the transaction already
                        connection.exec_driver_sql("ROLLBACK")
                    raise
                connection.exec_driver_sql("COMMIT")

    def write_ahead(self) -> None:
        """Let readers and the writer of an SQLite file go on side by side. Stays with the file."""
        if self.dialect == "sqlite":
            self.single(Transaction.command, "PRAGMA journal_mode = WAL")

    def erase_free_space(self) -> bool:
        """Take what was deleted out of the log and the free pages; whether all of it is gone.

        What was deleted is so already: nothing that is in the way here is an error.
        """
        try:
            with self._writer, self._taken() as tx:
                return self._erase(tx)
        except StoreUnavailable:
            return False

    def _erase(self, tx: Transaction) -> bool:
        if self.dialect == "postgresql":
            tx.command("VACUUM (SKIP_LOCKED) entries")
            return False
        # A reader's snapshot may be in the way; writers are not kept waiting for it.
        tx.command(f"PRAGMA busy_timeout = {ERASE_TIMEOUT_S * 1000}")
        try:
            row = tx.command("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            tx.command(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
        return row is None or row[0] == 0

    def close(self) -> None:
        """Close every connection; those in use when they are given back."""
        self._closed = True
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().connection.close()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._idle: list[Transaction] = []
        self._writer: Lock = self._engine.lock()
        self._reader: Lock = self._writer if self._engine.alone else nullcontext()

    def _notice_fork(self) -> None:
        """A child may neither use its parent's connections nor wait for its parent's locks."""
        if self._process != os.getpid():
            self._begin_life()

    def _repeated(
        self,
        begin: str | None,
        operation: Callable[..., Result],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result:
        begun, number = time.monotonic(), 0
        while True:
            number += 1
            try:
                return self._once(begin, operation, args, kwargs)
            except UniqueViolation:  # which no operation expects: it belongs to no session
                raise HistoryCorrupt("A row is in the way that belongs to no session.") from None
            except StoreUnavailable as error:
                if error.facts.get("code") not in RETRYABLE:
                    raise self._engine.explained(error) from None
                waited = time.monotonic() - begun
                if number == ATTEMPTS or waited > BUSY_TIMEOUT_S:
                    raise _given_up(error, number, waited) from None
            # Only spreads writers that collided; what is written never depends on it.
            time.sleep(random.uniform(0, 0.005 * 2**number))  # noqa: S311

    def _once(
        self,
        begin: str | None,
        operation: Callable[..., Result],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result:
        self._notice_fork()
        with self._writer:
            tx = self._take()
            try:
                if begin is None:
                    result = operation(tx, *args, **kwargs)
                else:
                    tx.command(begin)
                    result = operation(tx, *args, **kwargs)
                    tx.command("COMMIT")
            except BaseException:
                self._give_up(tx, rollback=begin is not None)
                raise
            self._give(tx)
            return result

    @contextmanager
    def _taken(self) -> Iterator[Transaction]:
        tx = self._take()
        check = self._engine.check_read
        try:
            yield tx
        except BaseException as error:
            self._give_up(tx, rollback=False)
            if check is not None and isinstance(error, Exception):
                check(tx.connection)  # what seems wrong may only have been torn
            raise
        self._give(tx)
        if check is not None:
            check(tx.connection)

    def _take(self) -> Transaction:
        if self._closed:
            raise StoreClosed("The store is closed.")
        while self._idle:
            with suppress(IndexError):  # another thread may take the last one
                tx = self._idle.pop()
                if self._engine.is_alive(tx.connection):
                    return tx
                tx.connection.close()
        return Transaction(self._engine.connect(), self._compile)

    def _give(self, tx: Transaction) -> None:
        if self._closed or not tx.is_sound:
            tx.connection.close()
        else:
            self._idle.append(tx)

    def _give_up(self, tx: Transaction, *, rollback: bool) -> None:
        """Take back a connection on which something went wrong, if it still serves."""
        try:
            if rollback:
                tx.command("ROLLBACK")
        except StoreUnavailable:
            if not self._engine.is_alive(tx.connection):
                tx.connection.close()
                return
        self._give(tx)

    def _compile(self, statement: ClauseElement) -> _Compiled:
        compiled = self._statements.get(statement)
        if compiled is None:
            compiled = self._statements[statement] = _Compiled(statement, self._engine.dialect)
        return compiled


def _given_up(error: StoreUnavailable, number: int, waited: float) -> StoreUnavailable:
    spent = f"{waited:.0f} seconds"
    told = f"this waited {spent}" if number == 1 else f"this was tried {number} times in {spent}"
    return StoreUnavailable(f"{error.fact.rstrip('.')}; {told}.", **error.facts)

"""One database: its connections, its transactions, and running them again.

Statements are SQLAlchemy Core, compiled once for the dialect and run on the driver's connection.
Idle connections wait on a stack; there are never more of them than there were threads at once.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement, Insert

from roocontext.errors import (
    HistoryCorrupt,
    RooContextError,
    StoreClosed,
    StoreForked,
    StoreUnavailable,
)
from roocontext.store import processes
from roocontext.store.driver_errors import (
    RETRYABLE,
    UniqueViolation,
    driver_errors,
    raise_ours,
    translated,
)
from roocontext.store.engines import Engine
from roocontext.store.holds import Hold
from roocontext.store.inspection import inspecting
from roocontext.store.shapes import checked
from roocontext.store.sqlite_files import BUSY_TIMEOUT_S
from roocontext.store.statements import Compiled, compiler

Row: TypeAlias = tuple[Any, ...]
Query: TypeAlias = tuple[ClauseElement, Mapping[str, Any]]
Result = TypeVar("Result")

_OURS = (RooContextError, UniqueViolation)

ATTEMPTS = 8
BRIEFLY_S = 1

_WAL = ("wal",)
_WRITE_AHEAD = "PRAGMA journal_mode = WAL"


class Transaction:
    """Statements run in one transaction, or each in its own."""

    def __init__(self, connection: Any, compiled: Callable[[ClauseElement], Compiled]) -> None:
        self.connection = connection
        self._run = connection.execute
        self._compiled = compiled
        self._pipeline = getattr(connection, "pipeline", None)
        self._is_together = False
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

    def insert(self, statement: Insert, *rows: Row) -> None:
        """Insert rows whose values are in the order of the table's columns."""
        compiled = self._compiled(statement)
        try:
            if len(rows) == 1:
                self._run(compiled.text, compiled.bind_row(rows[0]))
            elif self._pipeline is None or self._is_together:
                given = [compiled.bind_row(row) for row in rows]
                self.connection.cursor().executemany(compiled.text, given)
            else:  # one statement for all: each of executemany's is a message to the server
                names = ", ".join(compiled.names)
                self._copy(f"COPY {statement.table.name} ({names}) FROM STDIN", rows)
        except driver_errors() as error:
            raise_ours(error)

    def _copy(self, command: str, rows: Sequence[Row]) -> None:
        with self.connection.cursor() as cursor, cursor.copy(command) as copy:
            for row in rows:
                copy.write_row(row)

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
            self._is_together = True
            with translated(), self._pipeline():
                yield
        except BaseException:
            # What was prepared on the way may be unknown to the server: never use it again.
            self.is_sound = False
            raise
        finally:
            self._is_together = False

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

    def disown(self) -> None:
        """In a forked child: refuse every further statement."""
        self.connection = self._run = processes.Inherited()
        self._pipeline = None

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
        self.path = engine.path
        self._engine = engine
        self._compiled = compiler(engine.dialect)
        self._closed = False
        self._is_lost = False
        self._begin_life()
        processes.watch(self)

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

    def read(self) -> Hold:
        """A snapshot: everything read in it is of the same moment. Never waits for a writer."""
        processes.notice()
        return Hold(self, self._readers, self._engine.begin_read, checked=True)

    @contextmanager
    def inspection(self) -> Iterator[Connection]:
        """A SQLAlchemy connection in a snapshot, for what looks at the schema."""
        processes.notice()
        with (
            Hold(self, self._readers, None, checked=True) as tx,
            inspecting(tx.connection, self._engine.dialect, self._engine.begin_read) as connection,
        ):
            yield connection

    def migrate(self, operation: Callable[[Connection], None]) -> None:
        """Run an operation that changes the schema, on a SQLAlchemy connection in a transaction."""
        processes.notice()
        with (
            Hold(self, self._writers, None, checked=False) as tx,
            inspecting(tx.connection, self._engine.dialect, self._engine.begin_write) as connection,
        ):
            operation(connection)

    def write_ahead(self) -> None:
        """Let readers and the writer of an SQLite file go on side by side. Stays with the file."""
        if self.dialect == "sqlite":
            self.single(Transaction.command, _WRITE_AHEAD)

    def restore_write_ahead(self) -> None:
        """Do so again where another tool has written the file, such as `VACUUM INTO`.

        If another connection is in the way, the next opening tries it again.
        """
        if self.path is None or self.snapshot(Transaction.command, "PRAGMA journal_mode") == _WAL:
            return
        with suppress(StoreUnavailable):
            self._briefly(_WRITE_AHEAD)

    def erase_free_space(self) -> bool:
        """Take what was deleted out of the log and the free pages; whether all of it is gone.

        What was deleted is so already: nothing that is in the way here is an error.
        """
        try:
            if self.dialect == "postgresql":
                self._briefly("VACUUM (SKIP_LOCKED) entries")
                return False
            # A reader's snapshot may be in the way.
            row = self._briefly("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreUnavailable:
            return False
        return row is None or row[0] == 0

    def _briefly(self, command: str) -> Row | None:
        """Run a command that other writers are not kept waiting for."""
        processes.notice()
        with Hold(self, self._writers, None, checked=False) as tx:
            if self.dialect == "postgresql":
                return tx.command(command)
            tx.command(f"PRAGMA busy_timeout = {BRIEFLY_S * 1000}")
            try:
                return tx.command(command)
            finally:
                tx.command(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")

    def close(self) -> None:
        """Close every connection; those in use when they are given back."""
        processes.notice()
        self._closed = True
        self._recover()
        self._close_idle()

    # What a hold asks for

    def begin(self, hold: Hold) -> Transaction:
        """Wait for the hold's turn, and give it a connection."""
        if hold.queue is not None:
            hold.queue.enter(hold)
        self._holds.add(hold)
        while processes.forking and processes.must_wait(hold.thread):
            self._holds.discard(hold)  # a fork waits for those that use a connection
            processes.wait(hold.thread)
            self._holds.add(hold)
        tx = self._take(hold)
        if hold.begin is not None:
            tx.command(hold.begin)
        return tx

    def end(self, hold: Hold, error: BaseException | None) -> None:
        """Take back all that a hold has. Can be repeated where an interrupt cut it short."""
        tx = hold.tx
        if tx is not None:
            if tx.is_sound and (error is None or self._rolled_back(tx, error)):
                hold.tx = None  # first: from here on it is another's
                self._idle.append(tx)
                if self._closed:
                    self._close_idle()
            else:
                tx.connection.close()
                hold.tx = None
        if hold.queue is not None:
            hold.queue.leave(hold)
        self._holds.discard(hold)

    def check_read(self, tx: Transaction) -> None:
        """Raise if what was just read may be torn."""
        if self._engine.check_read is not None:
            self._engine.check_read(tx.connection)

    # What a fork asks for

    def is_busy(self, thread: int) -> bool:
        """Whether another thread uses SQLite here."""
        self._recover()
        return self.dialect == "sqlite" and any(
            hold.thread != thread and not hold.is_over() for hold in tuple(self._holds)
        )

    def let_go(self) -> None:
        """Close the idle connections to a file."""
        if self.path is not None:
            self._close_idle()

    def is_held(self) -> bool:
        """Whether there is any connection."""
        return bool(self._idle or self._holds)

    def begin_anew(self) -> None:
        """Forget all connections without closing them, and refuse what would go on with them."""
        left = [*self._idle, *(hold.tx for hold in self._holds if hold.tx is not None)]
        for hold in self._holds:
            hold.tx = None
        for tx in left:
            processes.keep_open(tx.connection)
            tx.disown()
        self._is_lost = self._engine.alone
        self._begin_life()

    def _begin_life(self) -> None:
        self._idle: list[Transaction] = []
        self._holds: set[Hold] = set()
        self._writers = self._engine.queue()
        self._readers = self._writers if self._engine.alone else None

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
        processes.notice()
        with Hold(self, self._writers, None, checked=False) as tx:
            if begin is None:
                return operation(tx, *args, **kwargs)
            tx.command(begin)
            result = operation(tx, *args, **kwargs)
            tx.command("COMMIT")
            return result

    def _take(self, hold: Hold) -> Transaction:
        if self._closed:
            raise StoreClosed("The store is closed.")
        if self._is_lost:
            raise StoreForked("A store in memory cannot be used in a forked process.")
        while self._idle:
            try:
                tx = hold.tx = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if self._engine.is_alive(tx.connection):
                return tx
            tx.connection.close()
        self._recover()
        tx = hold.tx = Transaction(self._engine.connect(), self._compiled)
        return tx

    def _recover(self) -> None:
        """Take back the connections that interrupted operations have left behind."""
        if not self._engine.alone:  # the one connection goes from hold to hold in the queue
            for hold in tuple(self._holds):
                if hold.is_over():
                    hold.recover()

    def _rolled_back(self, tx: Transaction, error: BaseException) -> bool:
        """Roll back what an operation left open; whether the connection can be used again."""
        is_ours = isinstance(error, _OURS)  # else an interrupt: nobody knows at which statement
        # On SQLite also before closing: a cursor that a traceback keeps also keeps the connection.
        is_asked = is_ours or self.dialect == "sqlite"
        if is_asked and not self._engine.is_idle(tx.connection):
            with suppress(RooContextError):
                tx.command("ROLLBACK")
        return (is_ours or self._engine.alone) and self._engine.is_idle(tx.connection)

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().connection.close()


def _given_up(error: StoreUnavailable, number: int, waited: float) -> StoreUnavailable:
    spent = f"{waited:.0f} seconds"
    told = f"this waited {spent}" if number == 1 else f"this was tried {number} times in {spent}"
    return StoreUnavailable(f"{error.fact.rstrip('.')}; {told}.", **error.facts)

"""One database: its connections, its transactions, and running them again.

Idle connections wait on a stack; there are never more of them than there were threads at once.

SQLAlchemy's own connection over one of the driver, for code that looks at the schema.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from roocontext.errors import (
    HistoryCorrupt,
    RooContextError,
    StoreClosed,
    StoreForked,
    StoreUnavailable,
)
from roocontext.store.engine import processes
from roocontext.store.engine.driver_errors import RETRYABLE, UniqueViolation, translated
from roocontext.store.engine.engines import Engine
from roocontext.store.engine.holds import Hold, Use
from roocontext.store.engine.sqlite_files import BUSY_TIMEOUT_S
from roocontext.store.engine.statements import compiler
from roocontext.store.engine.transaction import SqlRow, Transaction


@contextmanager
def inspecting(driver: Any, dialect: Dialect, begin: str) -> Iterator[Connection]:
    """A SQLAlchemy connection in a transaction."""
    with translated():
        engine = create_engine(
            f"{dialect.name}+{dialect.driver}://", creator=lambda: driver, poolclass=StaticPool
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


Result = TypeVar("Result")
P = ParamSpec("P")

_OURS = (RooContextError, UniqueViolation)

# The pauses between them double, and together take about 0.6 s.
ATTEMPTS = 8
BRIEFLY_S = 1

_WAL = ("wal",)
_WRITE_AHEAD = "PRAGMA journal_mode = WAL"
# In SQLite's own 4,096 bytes only one row of just over 2 kB fits: half of the file would be empty.
# With 16,384 an append takes a tenth longer, because the write-ahead log holds whole pages.
_PAGE_SIZE = "PRAGMA page_size = 8192"


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

    def write(
        self,
        operation: Callable[Concatenate[Transaction, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run an operation in a transaction, again when another writer was in the way."""
        return self._repeated(self._engine.begin_write, lambda tx: operation(tx, *args, **kwargs))

    def rehearse(
        self,
        operation: Callable[Concatenate[Transaction, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run an operation in a transaction and roll it back: its result or error alone is left."""
        return self._repeated(
            self._engine.begin_write, lambda tx: operation(tx, *args, **kwargs), keep=False
        )

    def single(
        self,
        operation: Callable[Concatenate[Transaction, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run an operation whose statements are transactions of their own."""
        return self._repeated(None, lambda tx: operation(tx, *args, **kwargs))

    def snapshot(
        self,
        operation: Callable[Concatenate[Transaction, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run an operation that only reads."""
        with self.read() as tx:
            return operation(tx, *args, **kwargs)

    def lookup(
        self,
        operation: Callable[Concatenate[Transaction, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run an operation that reads by one statement, or by some of different moments.

        It saves PostgreSQL the end of a transaction, which is a round trip.
        """
        processes.notice()
        with Hold(self, self._readers, None, checked=True) as tx:
            return operation(tx, *args, **kwargs)

    def read(self) -> Hold:
        """A snapshot: everything read in it is of the same moment. Never waits for a writer."""
        processes.notice()
        return Hold(self, self._readers, self._engine.begin_read, checked=True)

    @contextmanager
    def inspection(self) -> Iterator[Connection]:
        """A SQLAlchemy connection in a snapshot, for code that looks at the schema."""
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
        """Let an SQLite file be read while it is written. The setting stays with the file.

        A new file gets the size of its pages too.
        """
        if self.dialect == "sqlite":
            self.single(_write_ahead)

    def restore_write_ahead(self) -> None:
        """Switch it on again if another tool wrote the file, such as `VACUUM INTO`.

        If another connection is in the way, the next opening tries it again.
        """
        if self.path is None or self.snapshot(Transaction.command, "PRAGMA journal_mode") == _WAL:
            return
        with suppress(StoreUnavailable):
            self._briefly(_WRITE_AHEAD)

    def erase_free_space(self) -> bool:
        """Erase deleted content from the write-ahead log and the free pages; whether all is gone.

        The deletion itself is already committed, so nothing that is in the way here is an error.
        """
        # Never VACUUM FULL: it would lock everybody out. So a copy of the server's files
        # may still hold the content, and that is what False means.
        try:
            if self.dialect == "postgresql":
                self._briefly("VACUUM (SKIP_LOCKED) entries, sessions, search_rows")
                return False
            # FTS5 only marks a row as deleted: the terms go when it merges all that it has written.
            self._briefly("INSERT INTO search_terms (search_terms) VALUES ('optimize')")
            # A reader's snapshot may be in the way.
            row = self._briefly("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreUnavailable:
            return False
        return row is None or row[0] == 0

    def _briefly(self, command: str) -> SqlRow | None:
        """Run a command that gives up soon, so that other writers hardly wait for it."""
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
        # Closing is use of SQLite: a child of a fork in between would inherit a locked mutex.
        with Use(self):
            self._recover()
            self._close_idle()

    # What a hold asks for

    def arrive(self, use: Use) -> None:
        """Let forks of other threads end first; later ones wait for this use."""
        self._uses.add(use)
        while processes.forking and processes.must_wait(use.thread):
            self._uses.discard(use)  # a fork waits for those that use a connection
            processes.wait(use.thread)
            self._uses.add(use)

    def begin(self, hold: Hold) -> Transaction:
        """Wait for the hold's turn, and give it a connection."""
        if hold.queue is not None:
            hold.queue.enter(hold)
        self.arrive(hold)
        tx = self._take(hold)
        tx.begin(hold.begin)
        return tx

    def end(self, use: Use, error: BaseException | None) -> None:
        """Take back everything that a use holds. Safe to repeat if an interrupt cut it short."""
        tx = use.tx
        if tx is not None:
            if tx.is_sound and (error is None or self._rolled_back(tx, error)):
                use.tx = None  # first: from here on it is another's
                self._idle.append(tx)
                if self._closed:
                    self._close_idle()
            else:
                tx.connection.close()
                use.tx = None
        if isinstance(use, Hold) and use.queue is not None:
            use.queue.leave(use)
        self._uses.discard(use)

    def check_read(self, tx: Transaction) -> None:
        """Raise if what was just read may be torn."""
        if self._engine.check_read is not None:
            self._engine.check_read(tx.connection)

    # What a fork asks for

    def is_busy(self, thread: int) -> bool:
        """Whether another thread uses SQLite here."""
        self._recover()
        return self.dialect == "sqlite" and any(
            hold.thread != thread and not hold.is_over() for hold in tuple(self._uses)
        )

    # A connection to a server is a socket: closing it in the parent is not needed before a fork.
    def let_go(self) -> None:
        """Close the idle connections to a file."""
        if self.path is not None:
            self._close_idle()

    def is_held(self) -> bool:
        """Whether there is any connection."""
        return bool(self._idle or self._uses)

    def begin_anew(self) -> None:
        """Forget all connections without closing them, and refuse further use of them."""
        left = [*self._idle, *(hold.tx for hold in self._uses if hold.tx is not None)]
        for hold in self._uses:
            hold.tx = None
        # Never closed here: closing writes to the file, or ends the parent's session on the server.
        for tx in left:
            processes.keep_open(tx.connection)
            tx.disown()
        self._is_lost = self._engine.alone
        self._begin_life()

    def _begin_life(self) -> None:
        # A stack: the connection used last is taken first, with its statements prepared and pages
        # cached.
        self._idle: list[Transaction] = []
        self._uses: set[Use] = set()
        self._writers = self._engine.queue()
        # With one connection, a reader would see the uncommitted half of a write: it queues as
        # well.
        self._readers = self._writers if self._engine.alone else None

    def _repeated(
        self,
        begin: str | None,
        operation: Callable[[Transaction], Result],
        *,
        keep: bool = True,
    ) -> Result:
        begun, number = time.monotonic(), 0
        while True:
            number += 1
            try:
                return self._once(begin, operation, keep=keep)
            except UniqueViolation:  # which no operation expects: it belongs to no session
                raise HistoryCorrupt("A row is in the way that belongs to no session.") from None
            except StoreUnavailable as error:
                if error.facts.get("code") not in RETRYABLE:
                    raise self._engine.explained(error) from None
                waited = time.monotonic() - begun
                if number == ATTEMPTS or waited > BUSY_TIMEOUT_S:
                    raise _given_up(error, number, waited) from None
            # Random, so that writers that collided do not collide again; no data depends on it.
            time.sleep(random.uniform(0, 0.005 * 2**number))  # noqa: S311

    def _once(
        self,
        begin: str | None,
        operation: Callable[[Transaction], Result],
        *,
        keep: bool,
    ) -> Result:
        processes.notice()
        with Hold(self, self._writers, None, checked=False) as tx:
            tx.begin(begin)
            result = operation(tx)
            if begin is not None:
                (tx.commit if keep else tx.roll_back)()
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
        tx = hold.tx = Transaction(
            self._engine.connect(), self._engine.cursor, self._compiled, self.dialect
        )
        return tx

    def _recover(self) -> None:
        """Take back the connections that interrupted operations have left behind."""
        if not self._engine.alone:  # the one connection goes from hold to hold in the queue
            for hold in tuple(self._uses):
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
    tried = f"this waited {spent}" if number == 1 else f"this was tried {number} times in {spent}"
    return StoreUnavailable(f"{error.fact.rstrip('.')}; {tried}.", **error.facts)


def _write_ahead(tx: Transaction) -> None:
    # On one connection: the size only counts for the one that writes the first page.
    for command in (_PAGE_SIZE, _WRITE_AHEAD):
        tx.command(command)

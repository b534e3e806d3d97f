"""One database: operations run in transactions, and run again if another writer was in the way."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.pool import StaticPool

from roocontext.errors import HistoryCorrupt, StoreReadOnly, StoreUnavailable
from roocontext.store.engine.connections import Connections, PoolOptions
from roocontext.store.engine.driver_errors import RETRYABLE, UniqueViolation, translated
from roocontext.store.engine.engines import Engine
from roocontext.store.engine.observing import current_operation, forget_calls, noted_calls
from roocontext.store.engine.statements import ALL, StoreScope
from roocontext.store.engine.transaction import SessionLog, SqlRow, Transaction, TransactionMode


@contextmanager
def inspecting(driver: Any, dialect: Dialect) -> Iterator[Connection]:
    """A SQLAlchemy connection over one of the driver. It begins and ends no transaction."""
    with translated():
        engine = create_engine(
            f"{dialect.name}+{dialect.driver}://", creator=lambda: driver, poolclass=StaticPool
        )
        with engine.connect() as connection:
            yield connection


AView = TypeVar("AView")
Result = TypeVar("Result")
P = ParamSpec("P")

# The pauses between them double, and together take about 0.6 s.
ATTEMPTS = 8
BRIEFLY_S = 1

_WAL = ("wal",)
_WRITE_AHEAD = "PRAGMA journal_mode = WAL"
# In SQLite's own 4,096 bytes only one row of just over 2 kB fits: half of the file would be empty.
# With 16,384 an append takes a tenth longer, because the write-ahead log holds whole pages.
_PAGE_SIZE = "PRAGMA page_size = 8192"


class Operations(ABC, Generic[AView]):
    """Runs operations in transactions, each over a view of its transaction."""

    def __init__(self, engine: Engine, connections: Connections, scope: StoreScope) -> None:
        self.path = engine.path
        self.server = engine.server
        self.has_round_trips = engine.server is not None
        self._engine = engine
        self._connections = connections
        self._scope = scope
        self._check: Callable[[AView], None] | None = None

    @abstractmethod
    def _seen(self, tx: Transaction) -> AView:
        """The first argument of an operation."""

    def write(
        self, operation: Callable[Concatenate[AView, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an operation in a transaction, again when another writer was in the way."""
        check = self._check

        def checked(view: AView) -> Result:
            if check is not None:
                check(view)
            return operation(view, *args, **kwargs)

        return self._repeated("write", checked)

    def rehearse(
        self, operation: Callable[Concatenate[AView, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an operation in a transaction and roll it back: its result or error alone is left."""
        return self._repeated("write", lambda view: operation(view, *args, **kwargs), keep=False)

    def single(
        self, operation: Callable[Concatenate[AView, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an operation whose statements are transactions of their own."""
        return self._repeated("single", lambda view: operation(view, *args, **kwargs))

    def snapshot(
        self, operation: Callable[Concatenate[AView, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an operation that only reads."""
        return self._once("read", lambda view: operation(view, *args, **kwargs), writes=False)

    def lookup(
        self, operation: Callable[Concatenate[AView, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an operation that reads by one statement, or by some of different moments.

        It saves PostgreSQL the end of a transaction, which is a round trip.
        """
        return self._once("single", lambda view: operation(view, *args, **kwargs), writes=False)

    @contextmanager
    def read(self) -> Iterator[AView]:
        """A snapshot: everything read in it is of the same moment. Never waits for a writer."""
        hold = self._connections.hold(writes=False)
        try:
            tx = hold.begin("read", self._scope)
            yield self._seen(tx)
            tx.commit()
        except BaseException as error:
            hold.failed(error)
            raise
        finally:
            try:
                hold.give_back()
            finally:
                hold.give_back()

    def _repeated(
        self, mode: TransactionMode, operation: Callable[[AView], Result], *, keep: bool = True
    ) -> Result:
        begun, number, observed = time.monotonic(), 0, current_operation()
        while True:
            number += 1
            try:
                return self._once(mode, operation, keep=keep)
            except UniqueViolation:  # which no operation expects: it belongs to no session
                raise HistoryCorrupt(
                    "A row that belongs to no session blocks this write."
                ) from None
            except StoreUnavailable as error:
                if error.facts.get("code") not in RETRYABLE:
                    raise
                waited = time.monotonic() - begun
                if number == ATTEMPTS or waited > self._engine.patience_s:
                    raise _given_up(error, number, waited) from None
            if observed is not None:
                observed.retries += 1
            # Random, so that writers that collided do not collide again; no data depends on it.
            time.sleep(random.uniform(0, 0.005 * 2**number))  # noqa: S311

    def _once(
        self,
        mode: TransactionMode,
        operation: Callable[[AView], Result],
        *,
        writes: bool = True,
        keep: bool = True,
    ) -> Result:
        if writes and self._engine.read_only:
            raise StoreReadOnly(
                "The store was opened read-only.",
                advice="Nothing was changed. To write, open it without read_only.",
            )
        hold, calls = self._connections.hold(writes=writes), noted_calls()
        try:
            tx = hold.begin(mode, self._scope)
            result = operation(self._seen(tx))
            if keep:
                tx.commit(self._engine.end_write if writes else ())
            else:
                tx.roll_back()
                forget_calls(calls)
        except BaseException as error:
            hold.failed(error)
            forget_calls(calls)
            raise
        else:
            return result
        finally:
            try:
                hold.give_back()
            finally:
                hold.give_back()


class SessionDatabase(Operations[SessionLog]):
    """The part of a database that is about one session."""

    def __init__(self, database: "Database", session_id: str) -> None:
        super().__init__(database._engine, database._connections, database._scope)  # noqa: SLF001 - a part of it
        self.session_id = session_id

    def _seen(self, tx: Transaction) -> SessionLog:
        return SessionLog(tx, self.session_id)

    def checked(self, check: Callable[[SessionLog], None]) -> "SessionDatabase":
        """The same database, whose writes run a check first, in their transaction."""
        other = copy(self)
        other._check = check  # noqa: SLF001 - its own
        return other

    @property
    def is_checked(self) -> bool:
        """True if a write is more than its own statements: the session has to be looked at first.

        Only a query finds the sessions that have some metadata.
        """
        return self._check is not None or bool(self._scope.shape.facts)


class Database(Operations[Transaction]):
    """One database, shared by threads, or the part of it in a scope."""

    def __init__(
        self, engine: Engine, options: PoolOptions | None = None, scope: StoreScope = ALL
    ) -> None:
        super().__init__(engine, Connections(engine, options or PoolOptions()), scope)
        self.text_search = "fts5" if engine.server is None else "tsvector"
        self.polling = engine.polling

    def _seen(self, tx: Transaction) -> Transaction:
        return tx

    def of(self, session_id: str) -> SessionDatabase:
        """The part of the database that is about a session."""
        return SessionDatabase(self, session_id)

    def inspect(self, operation: Callable[[Connection], Result]) -> Result:
        """Run an operation that looks at the schema, on a SQLAlchemy connection in a snapshot."""
        return self._once("single", self._over("read", operation), writes=False)

    def migrate(self, operation: Callable[[Connection], Result]) -> Result:
        """Run an operation that changes the schema, on a SQLAlchemy connection in a transaction.

        It is run again if another transaction was in the way.
        """
        return self._repeated("single", self._over("write", operation))

    def write_ahead(self) -> None:
        """Let an SQLite file be read while it is written. The setting stays with the file.

        A new file gets the size of its pages too.
        """
        if self.path is not None:
            self.single(_write_ahead)

    def restore_write_ahead(self) -> None:
        """Switch it on again if another tool wrote the file, such as `VACUUM INTO`.

        If another connection is in the way, the next opening tries it again.
        """
        if self.path is None or self.lookup(Transaction.command, "PRAGMA journal_mode") == _WAL:
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
            if self.server is not None:
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

        def run(tx: Transaction) -> SqlRow | None:
            if self.server is not None:
                return tx.command(command)
            tx.command(f"PRAGMA busy_timeout = {BRIEFLY_S * 1000}")
            try:
                return tx.command(command)
            finally:
                tx.command(f"PRAGMA busy_timeout = {self._engine.patience_s * 1000:.0f}")

        return self._once("single", run)

    def close(self) -> None:
        """Close every connection; those in use when they are given back."""
        self._connections.close()

    def _over(
        self, mode: TransactionMode, operation: Callable[[Connection], Result]
    ) -> Callable[[Transaction], Result]:
        def run(tx: Transaction) -> Result:
            # SQLAlchemy's connection first: it asks its own questions, and ends with a rollback.
            with inspecting(tx.connection, self._engine.dialect) as connection:
                tx.begin(mode, self._scope)
                tx.command("SELECT 1")  # so that the transaction begins
                result = operation(connection)
                tx.commit()
                return result

        return run


def _given_up(error: StoreUnavailable, number: int, waited: float) -> StoreUnavailable:
    spent = f"{waited:.1f} seconds"
    tried = f"this waited {spent}" if number == 1 else f"this was tried {number} times in {spent}"
    return StoreUnavailable(f"{error.fact.rstrip('.')}; {tried}.", **error.facts)


def _write_ahead(tx: Transaction) -> None:
    # On one connection: the size only counts for the one that writes the first page.
    for command in (_PAGE_SIZE, _WRITE_AHEAD):
        tx.command(command)

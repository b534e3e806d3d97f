"""Databases: how to reach one, hold a transaction in it, and tell what went wrong.

All differences between SQLite and PostgreSQL are in this module, but for the two leaves of
`append`. Statements are SQLAlchemy Core, compiled once for each dialect and run on the driver's own
connection. Transactions are explicit on both: the drivers stay in autocommit, and a writer begins
with `BEGIN IMMEDIATE` on SQLite and takes the session's row lock on PostgreSQL.
"""

import os
import random
import select
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.sql import ClauseElement

from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    RooContextError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

Durability: TypeAlias = Literal["full", "normal"]
Row: TypeAlias = tuple[Any, ...]
Result = TypeVar("Result")

BUSY_TIMEOUT_S = 30
ATTEMPTS = 8
RETRYABLE = frozenset({"40001", "40P01", "55P03", sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
SQLITE_ERRORS: Mapping[int, type[RooContextError]] = {
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_NOTADB: ForeignDatabase,
    sqlite3.SQLITE_CORRUPT: HistoryCorrupt,
}
POSTGRES_ERRORS: Mapping[str, type[RooContextError]] = {
    "25006": StoreReadOnly,
    "42501": StoreReadOnly,
    "53100": StoreFull,
    "XX001": HistoryCorrupt,
    "XX002": HistoryCorrupt,
}


class UniqueViolation(Exception):
    """A row with this key exists. Raised to callers that can say which."""


class _Compiled:
    """A statement's text for one dialect, and how to give it its parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._constants = {k: v for k, v in compiled.params.items() if v is not None}
        self._order: list[str] | None = getattr(compiled, "positiontup", None)

    def bind(self, params: Mapping[str, Any]) -> Any:
        given = {**self._constants, **params} if self._constants else params
        return given if self._order is None else [given[name] for name in self._order]


class Transaction:
    """Statements run in one transaction, or each in its own."""

    def __init__(self, connection: Any, compiled: Callable[[ClauseElement], _Compiled]) -> None:
        self._connection = connection
        self._compiled = compiled
        # What many small reads travel in, where each would otherwise cost a round trip.
        self._together = getattr(connection, "pipeline", nullcontext)

    def rows(self, statement: ClauseElement, **params: Any) -> list[Row]:
        """All rows of a query."""
        cursor = self._execute(statement, params)
        rows: list[Row] = cursor.fetchall()
        return rows

    def row(self, statement: ClauseElement, **params: Any) -> Row | None:
        """The first row of a query."""
        row: Row | None = self._execute(statement, params).fetchone()
        return row

    def run(self, statement: ClauseElement, **params: Any) -> int:
        """How many rows a change changed."""
        count: int = self._execute(statement, params).rowcount
        return count

    def each(self, statement: ClauseElement, params: Sequence[Mapping[str, Any]]) -> list[Row]:
        """The rows of one query run with each of these parameters, one after the other."""
        if len(params) < 2:
            return [row for one in params for row in self.rows(statement, **one)]
        with translated(), self._together():
            cursors = [self._execute(statement, one) for one in params]
            return [row for cursor in cursors for row in cursor.fetchall()]

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make one change for each row."""
        if rows:
            compiled = self._compiled(statement)
            with translated():
                cursor = self._connection.cursor()
                cursor.executemany(compiled.text, [compiled.bind(row) for row in rows])

    def command(self, text: str) -> Row | None:
        """Run a command that takes no parameters, such as BEGIN; its first row, if it has any."""
        try:
            cursor = self._connection.execute(text)
        except _driver_errors() as error:
            _raise(error)
        row: Row | None = cursor.fetchone() if cursor.description else None
        return row

    def _execute(self, statement: ClauseElement, params: Mapping[str, Any]) -> Any:
        compiled = self._compiled(statement)
        try:
            return self._connection.execute(compiled.text, compiled.bind(params))
        except _driver_errors() as error:
            _raise(error)


class Database:
    """One database: its connections, transactions and retries."""

    def __init__(
        self, engine: Engine, *, writer: AbstractContextManager[Any] | None, alone: bool
    ) -> None:
        self.engine = engine
        self.dialect = engine.dialect.name
        self._writer: AbstractContextManager[Any] = writer or nullcontext()
        self._reader = self._writer if alone else nullcontext()
        self._statements: dict[ClauseElement, _Compiled] = {}
        self._process = os.getpid()
        sqlite = self.dialect == "sqlite"
        self._begin_write = "BEGIN IMMEDIATE" if sqlite else "BEGIN"
        self._begin_read = "BEGIN" if sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot: everything read in it is of the same moment. Never waits for a writer."""
        with self._reader, self._connected() as tx, _scope(tx, self._begin_read):
            yield tx

    def snapshot(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation that only reads."""
        with self.read() as tx:
            return operation(tx, *args, **kwargs)

    def write(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation in a transaction, again when another writer was in the way."""

        def attempt() -> Result:
            with self._writer, self._connected() as tx, _scope(tx, self._begin_write):
                return operation(tx, *args, **kwargs)

        return _retried(attempt)

    def single(self, operation: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Run an operation whose statements are transactions of their own."""

        def attempt() -> Result:
            with self._writer, self._connected() as tx:
                return operation(tx, *args, **kwargs)

        return _retried(attempt)

    @contextmanager
    def inspection(self, *, write: bool = False) -> Iterator[Connection]:
        """A SQLAlchemy connection in a transaction, for what looks at the schema or changes it."""
        lock = self._writer if write else self._reader
        with lock, translated(), self.engine.connect() as connection:
            connection.exec_driver_sql(self._begin_write if write else self._begin_read)
            try:
                yield connection
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextmanager
    def _connected(self) -> Iterator[Transaction]:
        if self._process != os.getpid():  # a forked child may not use its parent's connections
            self.engine.dispose(close=False)
            self._process = os.getpid()
        with translated():
            pooled = self.engine.raw_connection()
        try:
            yield Transaction(pooled.driver_connection, self._compile)
        except StoreUnavailable as error:
            if error.outcome_unknown:
                pooled.invalidate()
            raise
        finally:
            pooled.close()

    def _compile(self, statement: ClauseElement) -> _Compiled:
        compiled = self._statements.get(statement)
        if compiled is None:
            compiled = self._statements[statement] = _Compiled(statement, self.engine.dialect)
        return compiled


def connect(
    url: str | Path | URL, *, create: bool, durability: Durability, read_only: bool
) -> Database:
    """A database by its URL, or an SQLite file by its path. No more is done than making a file."""
    parsed = _parse(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _sqlite(parsed, durability, create=create, read_only=read_only)
    if backend == "postgresql":
        return _postgres(parsed, durability, read_only=read_only)
    raise StoreUnavailable(f"{backend} is neither sqlite nor postgresql.")


def erase_free_space(database: Database) -> bool:
    """Take what was deleted out of the log and the free pages; whether all of it is gone."""
    with database._reader, database._connected() as tx:  # noqa: SLF001 - the same room
        if database.dialect == "postgresql":
            tx.command("VACUUM entries")
            return False
        row = tx.command("PRAGMA wal_checkpoint(TRUNCATE)")
        return row is None or row[0] == 0


@contextmanager
def translated() -> Iterator[None]:
    """Turn a driver's error into ours. Its text may quote content, so none of it is passed on."""
    try:
        yield
    except DBAPIError as error:
        _raise(error.orig or error)
    except _driver_errors() as error:
        _raise(error)


def _driver_errors() -> tuple[type[BaseException], ...]:
    """What the drivers raise, those that are loaded."""
    psycopg = sys.modules.get("psycopg")
    return (sqlite3.Error,) if psycopg is None else (sqlite3.Error, psycopg.Error)


def _raise(error: BaseException) -> NoReturn:
    code = _code(error)
    if code in (sqlite3.SQLITE_CONSTRAINT, "23505"):
        raise UniqueViolation from None
    if isinstance(code, int):
        kind = SQLITE_ERRORS.get(code, StoreUnavailable)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
    else:
        kind = POSTGRES_ERRORS.get(code or "", StoreUnavailable)
        name = f"{type(error).__name__} {code or ''}".strip()
    facts = {"code": code, "outcome_unknown": _is_disconnect(error)}
    raise kind(f"The database answered {name}.", **facts) from None


def _code(error: BaseException) -> int | str | None:
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is not None:
        return int(extended) & 0xFF
    return getattr(error, "sqlstate", None)


def _is_disconnect(error: BaseException) -> bool:
    """Whether the connection is gone, so that nobody knows what became of the statement."""
    if isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlstate", None) or ""
    return not code or code.startswith(("08", "57P"))


def _retried(attempt: Callable[[], Result]) -> Result:
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except StoreUnavailable as error:
            if error.facts.get("code") not in RETRYABLE:
                raise
            # Only spreads writers that collided; what is written never depends on it.
            time.sleep(random.uniform(0, 0.005 * 2**number))  # noqa: S311
    return attempt()


@contextmanager
def _scope(tx: Transaction, begin: str) -> Iterator[None]:
    tx.command(begin)
    try:
        yield
    except BaseException:
        with suppress(StoreUnavailable):  # the connection is gone, and the transaction with it
            tx.command("ROLLBACK")
        raise
    tx.command("COMMIT")


def _parse(url: str | Path | URL) -> URL:
    if isinstance(url, URL):
        return url
    text = os.fspath(url)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        raise StoreUnavailable("This is neither a path nor a database URL.") from None


_writers: dict[str, AbstractContextManager[Any]] = {}


def _sqlite(url: URL, durability: Durability, *, create: bool, read_only: bool) -> Database:
    path = url.database or ":memory:"
    memory = path == ":memory:"
    if memory:
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "isolation_level": None},
        )
        _prepare_sqlite(engine, durability)
        return Database(engine, writer=threading.Lock(), alone=True)
    real = Path(path).resolve()
    if create and not read_only:
        _create_private(real)
    elif not real.exists():
        raise StoreUnavailable("No such database file.")
    uri = f"{real.as_uri()}{'?mode=ro' if read_only else ''}"
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(
            uri,
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        ),
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=-1,
    )
    _prepare_sqlite(engine, durability)
    # Writers of one process queue here: SQLite's own waiting sleeps, and is not fair.
    return Database(engine, writer=_writers.setdefault(str(real), threading.Lock()), alone=False)


def _create_private(path: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        return
    except OSError as error:
        reason = type(error).__name__
        raise StoreUnavailable(f"The database file cannot be made: {reason}.") from None


def _prepare_sqlite(engine: Engine, durability: Durability) -> None:
    @event.listens_for(engine, "connect")
    def _pragmas(connection: sqlite3.Connection, _record: Any) -> None:
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT_S * 1000}",
            f"synchronous = {'FULL' if durability == 'full' else 'NORMAL'}",
            "foreign_keys = ON",
            "recursive_triggers = ON",
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")


def use_write_ahead_log(database: Database) -> None:
    """Let readers and the writer of an SQLite file go on side by side. Stays with the file."""
    with database._reader, database._connected() as tx:  # noqa: SLF001 - the same room
        tx.command("PRAGMA journal_mode = WAL")


def _postgres(url: URL, durability: Durability, *, read_only: bool) -> Database:
    if find_spec("psycopg") is None:
        raise StoreUnavailable("PostgreSQL needs the extra: pip install 'roocontext[postgres]'.")
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={"autocommit": True},
        pool_size=8,
        max_overflow=56,
    )

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
        if durability == "normal":
            connection.execute("SET synchronous_commit = off")

    @event.listens_for(engine, "checkout")
    def _alive(connection: Any, _record: Any, _proxy: Any) -> None:
        # An idle connection has nothing to say: what can be read is the server hanging up.
        if connection.closed or select.select([connection.fileno()], [], [], 0)[0]:
            raise DisconnectionError

    return Database(engine, writer=None, alone=False)

"""SQLite and PostgreSQL: how to reach them, and all that differs between them.

All but the two leaves of `append`. The drivers stay in autocommit, transactions are begun and
ended explicitly: a writer begins with `BEGIN IMMEDIATE` on SQLite, and takes the session's row
lock on PostgreSQL.
"""

import os
import selectors
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import URL, make_url
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import ArgumentError

from roocontext.errors import InvalidOption, StoreNotFound, StoreUnavailable
from roocontext.store.faults import translated

Durability: TypeAlias = Literal["full", "normal"]
Lock: TypeAlias = AbstractContextManager[Any]

BUSY_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Engine:
    """What a database needs of its engine.

    `lock` gives what the writers of one process queue on; `alone` says that there is one
    connection, which readers queue for too.
    """

    dialect: Dialect
    connect: Callable[[], Any]
    is_alive: Callable[[Any], bool]
    lock: Callable[[], Lock]
    begin_write: str
    begin_read: str
    alone: bool = False


def engine_of(
    url: str | Path | URL, *, create: bool, durability: Durability, read_only: bool
) -> Engine:
    """The engine of a URL, or of an SQLite file. No more is done than making an empty file."""
    if durability not in get_args(Durability):
        raise InvalidOption(f"durability is one of {get_args(Durability)}.", name="durability")
    parsed = _parse(url)
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return _postgres(parsed, durability, read_only=read_only)
    if backend != "sqlite":
        raise InvalidOption(f"{backend} is neither sqlite nor postgresql.", name="url")
    if parsed.host or parsed.query or parsed.database == "":
        raise InvalidOption(
            "An SQLite URL names its file behind three slashes, sqlite:///agent.db, or behind four"
            " if its path begins at the root, and takes no options.",
            name="url",
        )
    if parsed.database in (None, ":memory:"):
        return _sqlite(":memory:", durability, threading.Lock, alone=True)
    path = Path(parsed.database).resolve()
    return _sqlite_file(path, durability, create=create, read_only=read_only)


def _parse(url: str | Path | URL) -> URL:
    if isinstance(url, URL):
        return url
    text = os.fspath(url) if isinstance(url, (str, Path)) else ""
    if not text or "\0" in text or text.startswith("file:"):
        raise InvalidOption("Give a path or a database URL.", name="url")
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):
        raise InvalidOption("This is neither a path nor a database URL.", name="url") from None


class _Queue:
    """A lock that is had in the order of asking."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            turn.wait()
        except BaseException:  # interrupted: leave the queue, or pass on what was just given
            with self._guard:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._pass_on()
            raise

    def __exit__(self, *_raised: object) -> None:
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._held = False


_queues: dict[Path, Lock] = {}


def _sqlite_file(path: Path, durability: Durability, *, create: bool, read_only: bool) -> Engine:
    if create and not read_only:
        _create_private(path)
    if not _is_file(path):
        raise StoreNotFound(f"There is {'a folder' if path.is_dir() else 'no file'} of this name.")

    # Writers of one process queue here: SQLite's own waiting sleeps, and is not fair.
    def lock() -> Lock:
        return _queues.setdefault(path, _Queue())

    uri = f"{path.as_uri()}{'?mode=ro' if read_only else ''}"
    return _sqlite(uri, durability, lock, alone=False)


os.register_at_fork(after_in_child=_queues.clear)


def _create_private(path: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        return
    except FileNotFoundError:
        raise StoreNotFound(
            "The folder that the database file is to be in does not exist."
        ) from None
    except OSError as error:
        reason = type(error).__name__
        raise StoreUnavailable(f"The database file cannot be made: {reason}.") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # a folder on the way to it may not be entered
        reason = type(error).__name__
        raise StoreUnavailable(f"The database file cannot be looked at: {reason}.") from None


def _sqlite(uri: str, durability: Durability, lock: Callable[[], Lock], *, alone: bool) -> Engine:
    pragmas = (
        f"busy_timeout = {BUSY_TIMEOUT_S * 1000}",
        f"synchronous = {'FULL' if durability == 'full' else 'NORMAL'}",
        "recursive_triggers = ON",
        "secure_delete = ON",
    )

    def connect() -> sqlite3.Connection:
        with translated():
            connection = sqlite3.connect(
                uri,
                uri=not alone,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
            return connection

    return Engine(
        SQLiteDialect_pysqlite(),
        connect,
        lambda _connection: True,
        lock,
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
        alone=alone,
    )


_SYNCHRONOUS: Mapping[str, str] = {
    # A server may be set to acknowledge early; stricter settings than `on` are left as they are.
    "full": "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
    "normal": "SET synchronous_commit = off",
}
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


def _readable(descriptor: int) -> bool:
    with _Selector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _postgres(url: URL, durability: Durability, *, read_only: bool) -> Engine:
    if find_spec("psycopg") is None:
        raise InvalidOption(
            "PostgreSQL needs the extra: pip install 'roocontext[postgres]'.", name="url"
        )
    import psycopg  # noqa: PLC0415 - an extra, loaded when it is asked for

    dialect = url.set(drivername="postgresql+psycopg").get_dialect()()
    args, options = dialect.create_connect_args(url)
    settings = [
        *(["SET default_transaction_read_only = on"] if read_only else []),
        # Writers queue on their session's row and then read what the one before wrote.
        "SET default_transaction_isolation = 'read committed'",
        _SYNCHRONOUS[durability],
    ]

    def connect() -> Any:
        with translated(sent=False):
            try:
                connection = psycopg.connect(*args, **options, autocommit=True)
            except psycopg.OperationalError as refused:
                raise StoreUnavailable(
                    "The server cannot be reached, or refused this role, password or database.",
                    code=refused.sqlstate,
                ) from None
            try:
                for setting in settings:
                    connection.execute(setting)
            except BaseException:
                connection.close()
                raise
            return connection

    def is_alive(connection: Any) -> bool:
        # An idle connection has nothing to say: what can be read is the server hanging up.
        return not connection.closed and not _readable(connection.fileno())

    return Engine(
        dialect,
        connect,
        is_alive,
        nullcontext,
        begin_write="BEGIN",
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    )

"""SQLite and PostgreSQL: how to reach them, and all that differs between them.

All but the two leaves of `append`. The drivers stay in autocommit, transactions are begun and
ended explicitly: a writer begins with `BEGIN IMMEDIATE` on SQLite, and takes the session's row
lock on PostgreSQL.
"""

import os
import re
import selectors
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import URL, make_url
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import ArgumentError

from roocontext.errors import InvalidOption, StoreNotFound, StoreReadOnly, StoreUnavailable
from roocontext.store import files
from roocontext.store.faults import raise_ours, translated, unconnected

Durability: TypeAlias = Literal["full", "normal"]
Lock: TypeAlias = AbstractContextManager[Any]

BUSY_TIMEOUT_S = 30

_CONNINFO = re.compile(r"(?:^|\s)(?:host|password|dbname)\s*=")
_CLOSING_S = 0.02
_TRIES = 3


def is_at_rest(connection: Any) -> bool:
    """Whether this connection reads a file as it lies, without locks."""
    return isinstance(connection, _Connection) and connection.at_rest is not None


def _as_it_is(error: StoreUnavailable) -> StoreUnavailable:
    return error


@dataclass(frozen=True, slots=True)
class Engine:
    """What a database needs of its engine.

    `lock` gives what the writers of one process queue on; `alone` says that there is one
    connection, which readers queue for too. `check_read`, where there is one, raises if what was
    just read on a connection may be torn. `explained` says more about an error, where more shows.
    """

    dialect: Dialect
    connect: Callable[[], Any]
    is_alive: Callable[[Any], bool]
    lock: Callable[[], Lock]
    begin_write: str
    begin_read: str
    alone: bool = False
    check_read: Callable[[Any], None] | None = None
    explained: Callable[[StoreUnavailable], StoreUnavailable] = _as_it_is


class _Connection(sqlite3.Connection):
    """A connection to a file; `at_rest` is what that was like, if it is read without locks."""

    at_rest: files.State | None = None


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
        return _in_memory(durability)
    return _sqlite_file(_resolved(parsed.database), durability, create=create, read_only=read_only)


def file_of(url: str | Path | URL) -> Path | None:
    """The SQLite file of a URL, if it names one."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return _resolved(str(parsed.database))


def _parse(url: str | Path | URL) -> URL:
    if isinstance(url, URL):
        return url
    text = os.fspath(url) if isinstance(url, (str, Path)) else ""
    if not text or "\0" in text or text.startswith("file:"):
        raise InvalidOption("Give a path or a database URL.", name="url")
    if _CONNINFO.search(text):  # it may hold a password, and no file is called so
        raise InvalidOption(
            "Write what names a server as a URL: postgresql://user@host/database.", name="url"
        )
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
    _check_is_file(path)
    file = _File(path, durability, read_only)

    # Writers of one process queue here: SQLite's own waiting sleeps, and is not fair.
    def lock() -> Lock:
        return _queues.setdefault(path, _Queue())

    return replace(
        _sqlite(file.connect, lock),
        is_alive=file.is_alive,
        check_read=file.check_read,
        explained=file.explained,
    )


@dataclass(frozen=True, slots=True)
class _File:
    """An SQLite file, connected to in the way that leaves nothing behind which harms its owner."""

    path: Path
    durability: Durability
    read_only: bool

    def connect(self) -> "_Connection":
        writes = not self.read_only and files.is_writable(self.path)
        tries = 1 if writes else _TRIES
        while True:
            tries -= 1
            try:
                return self._connect(writes=writes)
            except sqlite3.Error as error:
                if not tries or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
                    why = files.obstacle(self.path, read_only=self.read_only)
                    raise_ours(error, sent=False, path=self.path, why=why)
            time.sleep(_CLOSING_S)  # a writer that closes takes away what was about to be opened

    def _connect(self, *, writes: bool) -> "_Connection":
        state, way = None, "mode=rw"
        if not writes and not files.leaves_nothing(self.path):
            state = files.at_rest(self.path)
            way = "mode=ro&readonly_shm=1" if state is None else "immutable=1"
        uri = f"{self.path.as_uri()}?{way}"
        connection = _connect(uri, self.durability, query_only=not writes)
        connection.at_rest = state
        return connection

    def is_alive(self, connection: "_Connection") -> bool:
        return connection.at_rest is None or connection.at_rest == files.at_rest(self.path)

    def check_read(self, connection: "_Connection") -> None:
        if connection.at_rest is not None and connection.at_rest != files.state_of(self.path):
            raise StoreUnavailable(
                f"{str(self.path)!r} was changed while it was read.",
                advice="Nothing that was read is told: read it again.",
            )

    def explained(self, error: StoreUnavailable) -> StoreUnavailable:
        is_refused = isinstance(error, StoreReadOnly) and not self.read_only
        why = files.obstacle(self.path, read_only=False) if is_refused else None
        if why is None:
            return error
        return StoreReadOnly(why.fact, **{**error.facts, "advice": why.advice})


os.register_at_fork(after_in_child=_queues.clear)


def _resolved(name: str) -> Path:
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError):
        raise StoreNotFound(
            f"{name!r} is a link that leads nowhere.", advice="Name a file."
        ) from None


def _create_private(path: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        return
    except (FileNotFoundError, NotADirectoryError):
        raise StoreNotFound(
            f"There is no folder {str(path.parent)!r}, which {path.name!r} is to be in.",
            advice="Make the folder first.",
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be made: {error.strerror}.",
            advice="Name a file in a folder that you may write.",
        ) from None


def _check_is_file(path: Path) -> None:
    name = repr(str(path))
    match files.place_of(path).kind:
        case "file":
            return
        case "folder":
            raise StoreNotFound(f"{name} is a folder.", advice="Name a file in it.")
        case "neither":
            raise StoreNotFound(f"{name} is not a file.", advice="Name a file.")
        case "hidden":
            raise StoreUnavailable(
                f"{name} is behind a folder that you may not enter.",
                advice="Ask its owner for the right to enter it.",
            )
    if files.place_of(path.parent).kind == "folder":
        raise StoreNotFound(f"There is no file {name}.")
    raise StoreNotFound(
        f"There is no file {name}, and no folder that it could be in.",
        advice="Make the folder first, or name a file that is there.",
    )


def _sqlite(connect: Callable[[], sqlite3.Connection], lock: Callable[[], Lock]) -> Engine:
    return Engine(
        SQLiteDialect_pysqlite(),
        connect,
        lambda _connection: True,
        lock,
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
    )


def _in_memory(durability: Durability) -> Engine:
    def connect() -> sqlite3.Connection:
        with translated():
            return _connect("file::memory:", durability, query_only=False)

    return replace(_sqlite(connect, threading.Lock), alone=True)


def _connect(uri: str, durability: Durability, *, query_only: bool) -> _Connection:
    pragmas = (
        *(["query_only = ON"] if query_only else []),
        f"busy_timeout = {BUSY_TIMEOUT_S * 1000}",
        f"synchronous = {'FULL' if durability == 'full' else 'NORMAL'}",
        "recursive_triggers = ON",
        "secure_delete = ON",
        "schema_version",  # nothing is opened before something is read
    )
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=_Connection,
    )
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        connection.close()
        raise
    return connection


_SYNCHRONOUS: Mapping[str, str] = {
    # A server may be set to acknowledge early; stricter settings than `on` are left as they are.
    "full": "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
    "normal": "SET synchronous_commit = off",
}


def _check_encoding(encoding: str | None) -> None:
    """Refuse a database that cannot hold every character."""
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"The database's encoding is {encoding}, and it has to be UTF8.",
            advice="Make one: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0.",
        )


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
    if "@" in (url.host or ""):  # what stands before it may be a part of the password
        raise InvalidOption("An @ in the password of a URL is written as %40.", name="url")
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
            except psycopg.Error as refused:
                raise unconnected(refused, options) from None
            try:
                _check_encoding(connection.info.parameter_status("server_encoding"))
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

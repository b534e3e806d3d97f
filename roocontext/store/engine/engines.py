"""The engine of a database, SQLite or PostgreSQL, and the URLs that name databases.

The drivers stay in autocommit, and transactions are begun and ended explicitly: a writer begins
with `BEGIN IMMEDIATE` on SQLite, and takes the session's row lock on PostgreSQL.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from sqlalchemy import URL, make_url
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import ArgumentError

from roocontext.errors import InvalidOption
from roocontext.store.engine import sqlite_files
from roocontext.store.engine.check_arguments import check_seconds
from roocontext.store.engine.statements import compilers, with_constants
from roocontext.store.engine.transaction import Command, Transaction

Durability: TypeAlias = Literal["full", "normal"]

_CONNINFO = re.compile(r"(?:^|\s)(?:host|password|dbname)\s*=")
_SQLITE = with_constants(SQLiteDialect_pysqlite())
_COMPILERS = compilers(_SQLITE)
_SYNCHRONOUS: Mapping[str, str] = {"full": "FULL", "normal": "NORMAL"}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of `Store.open`, except those of the pool."""

    durability: Durability = "full"
    read_only: bool = False
    lock_timeout: float | None = None
    statement_timeout: float | None = None
    prepare: bool | None = None
    on_begin: Sequence[Any] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            line = f"durability must be one of {get_args(Durability)}."
            raise InvalidOption(line, name="durability")
        # No wait for locks is useful, and no time for statements would cancel each of them.
        for name, least in (("lock_timeout", 0), ("statement_timeout", 0.001)):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name), least=least)
        if self.prepare not in (None, True, False):
            raise InvalidOption("prepare must be True, False or None.", name="prepare")
        if isinstance(self.on_begin, str) or not isinstance(self.on_begin, Sequence):
            raise InvalidOption("on_begin must be a list of statements.", name="on_begin")


class Polling(NamedTuple):
    """How often the change feed looks for changes, in seconds, and how late they may be committed.

    A change shows up to `lag_minutes` after the minute that it is marked with.
    """

    every_s: float
    lag_minutes: int


# Writers of a file take turns: what a reader does not see yet gets no earlier minute than what it
# sees.
_IN_TURN = Polling(every_s=0.25, lag_minutes=0)


class WriteSettings(NamedTuple):
    """The settings of each transaction that writes to a server."""

    durability: Durability
    lock_timeout: str


@dataclass(frozen=True, slots=True, repr=False)  # it knows the password
class Engine:
    """How a database is connected to.

    `end_write` is sent with the COMMIT of a write. A writer waits for others for `patience_s`.
    `path` is the file, if there is one, and `server` what is set for a write, if there is a server.
    A database in memory has neither.
    """

    dialect: Dialect
    connect: Callable[[], Any]
    transaction: Callable[[Any], Transaction]
    patience_s: float
    read_only: bool
    is_alive: Callable[[Any], bool] = lambda _connection: True
    close: Callable[[], None] = lambda: None
    path: Path | None = None
    server: WriteSettings | None = None
    end_write: Sequence[Command] = ()
    polling: Polling = _IN_TURN


def engine_of(
    url: str | Path | URL, options: EngineOptions | None = None, *, create: bool = False
) -> Engine:
    """The engine of a URL, or of an SQLite file. At most an empty file is created."""
    parsed, options = checked_url(url), options or EngineOptions()
    if parsed.get_backend_name() == "postgresql":
        return _server(parsed, options)
    for name in ("statement_timeout", "prepare", "on_begin"):
        if getattr(options, name) not in (None, (), []):
            raise InvalidOption(f"{name} is an option of PostgreSQL, not of SQLite.", name=name)
    if parsed.database in (None, ":memory:"):
        memory = sqlite_files.Memory()
        return replace(_sqlite(memory.connect, options), close=memory.close)
    path = sqlite_files.resolved(parsed.database)
    if create and not options.read_only:
        sqlite_files.create_private(path)
    sqlite_files.check_is_file(path)
    sqlite_files.refuse_foreign(path, read_only=options.read_only)
    engine = _sqlite(partial(sqlite_files.connect, path), options)
    return replace(engine, path=path)


def checked_url(url: str | Path | URL) -> URL:
    """The URL of a database that a store can be in; InvalidOption if it is none."""
    parsed = _parse(url)
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidOption(f"{backend} is neither sqlite nor postgresql.", name="url")
    if backend == "sqlite" and (parsed.host or parsed.query or parsed.database == ""):
        raise InvalidOption(
            "An SQLite URL names its file after three slashes, sqlite:///agent.db, or after four if"
            " the path begins at the root, and takes no options.",
            name="url",
        )
    # The system and libpq would cut a text off at a NUL.
    encode: Callable[[str], bytes] = os.fsencode if backend == "sqlite" else str.encode
    values = chain.from_iterable(parsed.normalized_query.values())
    texts = (parsed.username, parsed.password, parsed.host, parsed.database, *values)
    try:
        is_valid = not any(b"\0" in encode(str(text)) for text in texts)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise InvalidOption("The URL or path holds a NUL or half of a surrogate pair.", name="url")
    return parsed


def _parse(url: str | Path | URL) -> URL:
    if isinstance(url, URL):
        return url
    text = os.fspath(url) if isinstance(url, (str, Path)) else ""
    if not text or "\0" in text or text.startswith("file:"):
        raise InvalidOption("Give a path or a database URL.", name="url")
    if _CONNINFO.search(text):  # it may hold a password, and no file is called so
        raise InvalidOption(
            "Name a server by its URL: postgresql://user@host/database.", name="url"
        )
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):
        raise InvalidOption("This is neither a path nor a database URL.", name="url") from None


def _sqlite(connect: Callable[..., sqlite3.Connection], options: EngineOptions) -> Engine:
    patience_s = 30 if options.lock_timeout is None else options.lock_timeout
    connecting = partial(
        connect,
        mode="ro" if options.read_only else "rw",
        synchronous=_SYNCHRONOUS[options.durability],
        patience_s=patience_s,
    )
    return Engine(
        dialect=_SQLITE,
        connect=connecting,
        transaction=lambda connection: Transaction(connection, _COMPILERS),
        patience_s=patience_s,
        read_only=options.read_only,
    )


def _server(url: URL, options: EngineOptions) -> Engine:
    if find_spec("psycopg") is None:
        raise InvalidOption(
            "PostgreSQL needs the package psycopg, which is not installed.",
            advice="Install the extra: pip install 'roocontext[postgres]'.",
            name="url",
        )
    if "@" in (url.host or ""):  # what precedes it may be a part of the password
        raise InvalidOption("An @ in the password of a URL is written as %40.", name="url")
    from roocontext.store.engine.postgres import engine_of_server  # noqa: PLC0415 - it is an extra

    return engine_of_server(url, options)

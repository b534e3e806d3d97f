"""SQLite and PostgreSQL: how to reach them, and all that differs between them.

Only `append_one` and `view_current` know the engines too: an append and the view have a leaf for
each. The drivers stay in autocommit, and transactions are begun and ended explicitly: a writer
begins with `BEGIN IMMEDIATE` on SQLite, and takes the session's row lock on PostgreSQL.
"""

import os
import re
import select
import selectors
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import URL, make_url
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import ArgumentError

from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.engine import sqlite_files
from roocontext.store.engine.driver_errors import translated, unconnected
from roocontext.store.engine.statements import with_constants

Durability: TypeAlias = Literal["full", "normal"]

_CONNINFO = re.compile(r"(?:^|\s)(?:host|password|dbname)\s*=")
_SQLITE = with_constants(SQLiteDialect_pysqlite())
_SYNCHRONOUS_SQLITE: Mapping[str, str] = {"full": "FULL", "normal": "NORMAL"}


def _nothing() -> None:
    """What most engines have to close beside their connections."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What a database needs of its engine.

    `cursor` makes a cursor of a connection, for statements as the dialect compiles them. `is_idle`
    says whether a connection is free of transactions and can begin one. A writer waits for others
    for `patience_s`. `path` is the file, if there is one: a database in memory has neither file nor
    server.
    """

    dialect: Dialect
    connect: Callable[[], Any]
    cursor: Callable[[Any], Any]
    is_alive: Callable[[Any], bool]
    is_idle: Callable[[Any], bool]
    begin_write: str
    begin_read: str
    patience_s: float = sqlite_files.BUSY_TIMEOUT_S
    is_server: bool = False
    read_only: bool = False
    close: Callable[[], None] = _nothing
    path: Path | None = None


def engine_of(
    url: str | Path | URL, *, create: bool, durability: Durability, read_only: bool
) -> Engine:
    """The engine of a URL, or of an SQLite file. At most an empty file is created."""
    if durability not in get_args(Durability):
        raise InvalidOption(f"durability is one of {get_args(Durability)}.", name="durability")
    parsed = checked_url(url)
    if parsed.get_backend_name() == "postgresql":
        return replace(_postgres(parsed, durability), read_only=read_only)
    if parsed.database in (None, ":memory:"):
        return replace(_in_memory(durability), read_only=read_only)
    return _sqlite_file(
        sqlite_files.resolved(parsed.database), durability, create=create, read_only=read_only
    )


def checked_url(url: str | Path | URL) -> URL:
    """The URL of a database that a store can be in; InvalidOption if it is none."""
    parsed = _parse(url)
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidOption(f"{backend} is neither sqlite nor postgresql.", name="url")
    if backend == "sqlite" and (parsed.host or parsed.query or parsed.database == ""):
        raise InvalidOption(
            "An SQLite URL names its file behind three slashes, sqlite:///agent.db, or behind four"
            " if its path begins at the root, and takes no options.",
            name="url",
        )
    return parsed


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


def _sqlite_file(path: Path, durability: Durability, *, create: bool, read_only: bool) -> Engine:
    if create and not read_only:
        sqlite_files.create_private(path)
    sqlite_files.check_is_file(path)
    sqlite_files.refuse_foreign(path, read_only=read_only)
    synchronous = _SYNCHRONOUS_SQLITE[durability]
    connect = partial(sqlite_files.connect, path, synchronous, read_only=read_only)
    return replace(_sqlite(connect), path=path, read_only=read_only)


def _in_memory(durability: Durability) -> Engine:
    memory = sqlite_files.Memory(_SYNCHRONOUS_SQLITE[durability])
    return replace(_sqlite(memory.connect), close=memory.close)


def _sqlite(connect: Callable[[], sqlite3.Connection]) -> Engine:
    return Engine(
        _SQLITE,
        connect,
        methodcaller("cursor"),
        is_alive=lambda _connection: True,
        is_idle=sqlite_files.is_idle,
        # Takes the write lock at once. A plain BEGIN takes it at the first change, and if another
        # writer committed in between, SQLite refuses that change however long it would wait (0003).
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
    )


_SYNCHRONOUS_POSTGRES: Mapping[str, str] = {
    # A server may be set to acknowledge early; stricter settings than `on` are left as they are.
    "full": "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
    "normal": "SET synchronous_commit = off",
}
# The tests look at every statement's plan for any parameters. Where that seems dearer to the server
# than one for these parameters, it would plan the statement anew each time. A statement that seems
# dear to it, such as a view of hundreds of spans, it would compile each time, which takes 13 ms and
# more. A server that is too old for a setting does not know it.
_KEEP_PLANS = (
    "SELECT set_config(name, value, false) FROM (VALUES"
    " ('plan_cache_mode', 'auto', 'force_generic_plan'), ('jit', 'on', 'off')"
    ") AS setting (name, given, value) WHERE current_setting(name, true) = given"
)


def _check_encoding(encoding: str | None) -> None:
    """Refuse a database that cannot hold every character."""
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"The database's encoding is {encoding}, and it has to be UTF8.",
            advice="Make one: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0.",
        )


def _readable(descriptor: int) -> bool:
    if hasattr(select, "poll"):  # where there is one, it takes a quarter of a selector's time
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))
    with selectors.SelectSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _postgres(url: URL, durability: Durability) -> Engine:
    if find_spec("psycopg") is None:
        raise InvalidOption(
            "PostgreSQL needs the package psycopg, which is not installed.",
            advice="Install the extra: pip install 'roocontext[postgres]'.",
            name="url",
        )
    if "@" in (url.host or ""):  # what precedes it may be a part of the password
        raise InvalidOption("An @ in the password of a URL is written as %40.", name="url")
    import psycopg  # noqa: PLC0415 - an extra, loaded when it is asked for

    # With the server's own $1, psycopg has no parameters to find and to rewrite in a statement.
    made: Callable[..., Dialect] = url.set(drivername="postgresql+psycopg").get_dialect()
    dialect = with_constants(made(paramstyle="numeric_dollar"))
    args, options = dialect.create_connect_args(url)
    try:
        psycopg.conninfo.make_conninfo("", **options)
    except psycopg.ProgrammingError as wrong:
        raise unconnected(wrong) from None
    settings = [
        # Writers queue on their session's row and then read what the one before wrote.
        "SET default_transaction_isolation = 'read committed'",
        _SYNCHRONOUS_POSTGRES[durability],
        _KEEP_PLANS,
    ]

    def connect() -> Any:
        with translated(sent=False):
            try:
                connection = psycopg.connect(*args, **options, autocommit=True)
            except psycopg.Error as refused:
                raise unconnected(refused) from None
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

    def is_idle(connection: Any) -> bool:
        status = connection.pgconn
        return bool(
            status.transaction_status == psycopg.pq.TransactionStatus.IDLE
            and status.pipeline_status == psycopg.pq.PipelineStatus.OFF
        )

    return Engine(
        dialect,
        connect,
        psycopg.RawCursor,
        is_alive,
        is_idle,
        begin_write="BEGIN",
        # One snapshot for all statements of a read; the isolation that writers use gives each its
        # own.
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        is_server=True,
    )

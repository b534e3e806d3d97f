"""Facts about a database. Nothing is judged, and nothing is changed.

It works without opening a store, because the database may not hold one.
"""

import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Connection, inspect
from sqlalchemy import text as sql

from roocontext.errors import RooContextError, StoreNotFound
from roocontext.store.engine import migrate
from roocontext.store.engine.cluster import ClusterFacts, cluster_facts, silent_nodes
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import EngineOptions, engine_of
from roocontext.store.engine.schema import VERSION_TABLE, metadata

Found = TypeVar("Found")

_PROBLEMS = 5
"""The most problems of an integrity check that are reported."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """An SQLite file: its mode, and the size of its write-ahead log."""

    mode: int
    log_size: int


@dataclass(frozen=True, slots=True)
class Hindrances:
    """The problems that prevent a database from being examined.

    `problems` are SQLite's own; `unreadable` are the tables that the role on the server may not
    read; `silent` are the nodes that the coordinator of a cluster cannot reach.
    """

    problems: tuple[str, ...] = ()
    role: str = ""
    unreadable: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a database. `settings` are those of the engine as a store uses it.

    `unguarded` are the triggers of the log that are missing. `astray` is how many sessions have
    more or fewer entries than they say. `foreign` describes the other program's tables in a
    database without our schema. `cluster` is where a distributed store is.
    """

    dialect: str
    version: str
    settings: Mapping[str, str]
    unguarded: tuple[str, ...]
    problems: tuple[str, ...] = ()
    schema: migrate.SchemaVersion = migrate.NO_SCHEMA
    differences: int = 0
    sessions: int = 0
    astray: int = 0
    foreign: str | None = None
    file: FileFacts | None = None
    rights: Mapping[str, bool] = field(default_factory=dict)
    cluster: ClusterFacts | None = None


def examine_database(url: str | Path | URL) -> Health:
    """Examine a database without changing it. A file that is no database is a typed error."""
    return _inspected(url, _health)


def schema_version_of(url: str | Path | URL) -> migrate.SchemaVersion:
    """The version of a database's schema."""
    return _inspected(url, migrate.schema_version)


def upgrade_of(url: str | Path | URL) -> tuple[migrate.SchemaVersion, bool]:
    """The schema of a database, and whether it has to be upgraded; an error if it must not be.

    A database that does not exist has no schema.
    """
    try:
        return _inspected(url, lambda it: (migrate.schema_version(it), migrate.is_outdated(it)))
    except StoreNotFound:
        return migrate.NO_SCHEMA, True


def hindrances(url: str | Path | URL) -> Hindrances:
    """The problems of a database that cannot be examined."""
    with suppress(RooContextError, OSError):
        return _inspected(url, _hindrances)
    return Hindrances()


def _inspected(url: str | Path | URL, look: Callable[[Connection], Found]) -> Found:
    engine = engine_of(url, EngineOptions(read_only=True))
    with closing(Database(engine)) as database:
        return database.inspect(look)


def _health(connection: Connection) -> Health:
    schema = migrate.schema_version(connection)
    is_current = schema.current == schema.wanted
    return replace(
        (_of_sqlite if _is_sqlite(connection) else _of_postgres)(connection),
        schema=schema,
        differences=len(migrate.differences(connection)) if is_current else 0,
        sessions=_count(connection, _SESSIONS) if schema.is_usable else 0,
        astray=_count(connection, _ASTRAY) if schema.is_usable else 0,
        foreign=migrate.foreign(connection) if schema.current is None else None,
    )


def _hindrances(connection: Connection) -> Hindrances:
    if _is_sqlite(connection):
        return Hindrances(_integrity(connection))
    return _role(connection)


def _is_sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


# No content is read for these.
_SESSIONS = "SELECT count(*) FROM sessions WHERE purged_at IS NULL"
_ASTRAY = (
    "SELECT count(*) FROM sessions LEFT JOIN (SELECT session_id AS id, count(*) AS many,"
    " max(seq) AS newest FROM entries GROUP BY session_id) AS found ON id = session_id"
    " WHERE purged_at IS NULL AND archived_at IS NULL"
    " AND (coalesce(many, 0) <> last_seq OR coalesce(newest, 0) <> last_seq)"
)
"""The sessions without the entries that they count."""


def _of_sqlite(connection: Connection) -> Health:
    path = next(row[2] for row in connection.exec_driver_sql("PRAGMA database_list"))
    names = ("synchronous", "journal_mode")
    return Health(
        dialect="sqlite",
        version=sqlite3.sqlite_version,
        settings={name: _one(connection, f"PRAGMA {name}") for name in names},
        unguarded=_unguarded(
            connection,
            ("entries_update", "entries_delete", "entries_insert"),
            "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        ),
        problems=_integrity(connection),
        file=_file(Path(path)) if path else None,
    )


_POSTGRES_SETTINGS = ("synchronous_commit", "fsync", "full_page_writes", "autovacuum")


def _of_postgres(connection: Connection) -> Health:
    rights = ("UPDATE", "DELETE") if inspect(connection).has_table("entries") else ()
    asked = sql("SELECT has_table_privilege('entries', :right)")
    return Health(
        dialect="postgresql",
        version=_one(connection, "SHOW server_version"),
        settings={
            **{name: _one(connection, f"SHOW {name}") for name in _POSTGRES_SETTINGS},
            "in_recovery": _one(connection, "SELECT pg_is_in_recovery()").lower(),
        },
        unguarded=_unguarded(
            connection,
            ("entries_guard", "entries_truncate"),
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
            " AND tgrelid = to_regclass('entries')",
        ),
        rights={
            right: bool(connection.execute(asked, {"right": right}).scalar()) for right in rights
        },
        cluster=cluster_facts(connection),
    )


def _role(connection: Connection) -> Hindrances:
    query = sql(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema() AND c.relname = ANY(:tables)"
        " AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
    )
    tables = [*metadata.tables, VERSION_TABLE]
    rows = connection.execute(query, {"tables": tables}).scalars()
    return Hindrances(
        role=_one(connection, "SELECT current_user"),
        unreadable=tuple(rows),
        silent=silent_nodes(connection),
    )


def _one(connection: Connection, command: str) -> str:
    return str(connection.exec_driver_sql(command).scalar())


def _count(connection: Connection, query: str) -> int:
    return int(connection.exec_driver_sql(query).scalar_one())


def _unguarded(connection: Connection, guards: tuple[str, ...], query: str) -> tuple[str, ...]:
    """The triggers that keep the log append-only and are missing or switched off."""
    there = set(connection.exec_driver_sql(query).scalars())
    return tuple(name for name in guards if name not in there)


def _integrity(connection: Connection) -> tuple[str, ...]:
    """The problems that SQLite finds in the file; it reads all of it once."""
    # Not `integrity_check`, which also compares every index with its table.
    rows = connection.exec_driver_sql(f"PRAGMA quick_check({_PROBLEMS})")
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


def _file(path: Path) -> FileFacts:
    log = path.with_name(f"{path.name}-wal")
    return FileFacts(
        mode=stat.S_IMODE(path.stat().st_mode), log_size=log.stat().st_size if log.is_file() else 0
    )

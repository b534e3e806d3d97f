"""Facts about a database and the files around it. Nothing is judged, and nothing is changed.

It works without opening a store, because the database may not hold one.
"""

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, Connection, inspect
from sqlalchemy import text as sql

from roocontext.errors import RooContextError
from roocontext.store.engine import files, migrate
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import engine_of, file_of, is_at_rest
from roocontext.store.engine.schema import VERSION_TABLE, metadata

_MOUNTS = Path("/proc/self/mountinfo")
_PROCESSES = Path("/proc")
_OCTAL = re.compile(r"\\([0-7]{3})")
_PROBLEMS = 5
"""The most problems of an integrity check that are reported."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """An SQLite file: its mode, its sizes, its file system, and who else has it open.

    `locked` are the files beside it that this user may not write. `filesystem` and `holders` are
    None if the system does not report them.
    """

    path: str
    mode: int
    is_own: bool
    size: int
    log_size: int
    locked: tuple[files.PathStatus, ...]
    filesystem: str | None
    holders: int | None


@dataclass(frozen=True, slots=True)
class Hindrances:
    """What prevents a database from being examined.

    `places` are the folder, the file and the files beside it; `unreadable` the tables that the
    role on the server may not read.
    """

    places: tuple[files.PathStatus, ...] = ()
    problems: tuple[str, ...] = ()
    role: str = ""
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of a database: `settings` are the engine's, as a store uses it.

    `unguarded` are the triggers of the log that are missing. `astray` is how many sessions have
    more or fewer entries than they say. `foreign` says what is in it that is not ours, if there is
    no schema of ours.
    The settings have no `journal_mode` if the file is read without locks, past its journal.
    """

    dialect: str
    version: str
    settings: Mapping[str, str]
    schema: migrate.SchemaVersion
    differences: int
    unguarded: tuple[str, ...]
    sessions: int
    problems: tuple[str, ...]
    astray: int = 0
    foreign: str | None = None
    file: FileFacts | None = None
    rights: Mapping[str, bool] = field(default_factory=dict)


def examine_database(url: str | Path | URL) -> Health:
    """Examine a database without changing it. A file that is no database is a typed error."""
    with _inspected(url) as connection:
        look = _sqlite if connection.dialect.name == "sqlite" else _postgres
        return look(connection)


def schema_version_of(url: str | Path | URL) -> migrate.SchemaVersion:
    """The version of a database's schema."""
    with _inspected(url) as connection:
        return migrate.schema_version(connection)


def hindrances(url: str | Path | URL) -> Hindrances:
    """What is known of a database that cannot be examined."""
    path = file_of(url)
    with suppress(RooContextError, OSError), _inspected(url) as connection:
        if connection.dialect.name == "postgresql":
            return _role(connection)
        if path is not None:
            return Hindrances(tuple(files.surroundings(path)), _integrity(connection))
    return Hindrances(() if path is None else tuple(files.surroundings(path)))


@contextmanager
def _inspected(url: str | Path | URL) -> Iterator[Connection]:
    database = Database(engine_of(url, create=False, durability="full", read_only=True))
    try:
        with database.inspection() as connection:
            yield connection
    finally:
        database.close()


def _sqlite(connection: Connection) -> Health:
    schema = migrate.schema_version(connection)
    path = next(row[2] for row in connection.exec_driver_sql("PRAGMA database_list"))
    names = ["synchronous", "secure_delete", "mmap_size", "recursive_triggers"]
    if not is_at_rest(connection.connection.driver_connection):
        names.append("journal_mode")
    return Health(
        dialect="sqlite",
        version=sqlite3.sqlite_version,
        settings={name: _one(connection, f"PRAGMA {name}") for name in names},
        schema=schema,
        differences=_differences(connection, schema),
        unguarded=_unguarded(
            connection,
            ("entries_update", "entries_delete", "entries_insert"),
            "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        ),
        sessions=_sessions(connection, schema),
        problems=_integrity(connection),
        astray=_astray(connection, schema),
        foreign=_foreign(connection, schema),
        file=_file(Path(path)) if path else None,
    )


_POSTGRES_SETTINGS = (
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "autovacuum",
)


def _postgres(connection: Connection) -> Health:
    schema = migrate.schema_version(connection)
    tables = [name for name in metadata.tables if inspect(connection).has_table(name)]
    rights = ("UPDATE", "DELETE") if "entries" in tables else ()
    asked = sql("SELECT has_table_privilege('entries', :right)")
    return Health(
        dialect="postgresql",
        version=_one(connection, "SHOW server_version"),
        settings={
            **{name: _one(connection, f"SHOW {name}") for name in _POSTGRES_SETTINGS},
            "in_recovery": _one(connection, "SELECT pg_is_in_recovery()").lower(),
        },
        schema=schema,
        differences=_differences(connection, schema),
        unguarded=_unguarded(
            connection,
            ("entries_guard", "entries_truncate"),
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
            " AND tgrelid = to_regclass('entries')",
        ),
        sessions=_sessions(connection, schema),
        problems=(),
        astray=_astray(connection, schema),
        foreign=_foreign(connection, schema),
        rights={
            right: bool(connection.execute(asked, {"right": right}).scalar()) for right in rights
        },
    )


def _role(connection: Connection) -> Hindrances:
    query = sql(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema() AND c.relname = ANY(:tables)"
        " AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
    )
    tables = [*metadata.tables, VERSION_TABLE]
    rows = connection.execute(query, {"tables": tables}).scalars()
    return Hindrances(role=_one(connection, "SELECT current_user"), unreadable=tuple(rows))


def _one(connection: Connection, command: str) -> str:
    return str(connection.exec_driver_sql(command).scalar())


def _count(connection: Connection, query: str) -> int:
    return int(connection.exec_driver_sql(query).scalar_one())


def _unguarded(connection: Connection, guards: tuple[str, ...], query: str) -> tuple[str, ...]:
    """The triggers that keep the log append-only and are missing or switched off."""
    there = set(connection.exec_driver_sql(query).scalars())
    return tuple(name for name in guards if name not in there)


def _sessions(connection: Connection, schema: migrate.SchemaVersion) -> int:
    if schema.current != schema.wanted:
        return 0
    return _count(connection, "SELECT count(*) FROM sessions WHERE purged_at IS NULL")


def _astray(connection: Connection, schema: migrate.SchemaVersion) -> int:
    """How many sessions do not have the entries that they count; no content is read."""
    if schema.current != schema.wanted:
        return 0
    return _count(
        connection,
        "SELECT count(*) FROM sessions LEFT JOIN (SELECT session_id AS id, count(*) AS many,"
        " max(seq) AS newest FROM entries GROUP BY session_id) AS found ON id = session_id"
        " WHERE purged_at IS NULL"
        " AND (coalesce(many, 0) <> last_seq OR coalesce(newest, 0) <> last_seq)",
    )


def _differences(connection: Connection, schema: migrate.SchemaVersion) -> int:
    """In how much the tables are not those that this version is built on."""
    return len(migrate.differences(connection)) if schema.current == schema.wanted else 0


def _foreign(connection: Connection, schema: migrate.SchemaVersion) -> str | None:
    return migrate.foreign(connection) if schema.current is None else None


def _integrity(connection: Connection) -> tuple[str, ...]:
    """What SQLite itself finds wrong with the file; it reads all of it once."""
    # Not `integrity_check`, which also compares every index with its table.
    rows = connection.exec_driver_sql(f"PRAGMA quick_check({_PROBLEMS})")
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


def _file(path: Path) -> FileFacts:
    found = path.stat()
    sides = files.surroundings(path)[2:]
    return FileFacts(
        path=str(path),
        mode=stat.S_IMODE(found.st_mode),
        is_own=not hasattr(os, "geteuid") or found.st_uid == os.geteuid(),  # as on Windows
        size=found.st_size,
        log_size=sum(side.size for side in sides if side.path.name.endswith("-wal")),
        locked=tuple(side for side in sides if not side.writable),
        filesystem=_filesystem(path),
        holders=_holders(found),
    )


def _filesystem(path: Path) -> str | None:
    """The type of the file system that the longest mount point above the file has."""
    best, kind = -1, None
    with suppress(OSError):
        for line in _MOUNTS.read_text().splitlines():
            # proc(5): the fifth field is the mount point, with spaces as \040; the type follows the
            # dash.
            mount, _, source = line.partition(" - ")
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), mount.split()[4])
            if path.is_relative_to(point) and len(point) >= best:
                best, kind = len(point), source.split()[0]
    return kind


def _holders(found: os.stat_result) -> int | None:
    """How many other processes have the file open, as far as this user may see them."""
    if not (_PROCESSES / "self").exists():
        return None
    holding = _any_open(found)
    others = (p for p in _PROCESSES.iterdir() if p.name.isdigit() and p.name != str(os.getpid()))
    return sum(map(holding, others))


def _any_open(found: os.stat_result) -> Callable[[Path], bool]:
    wanted = found.st_dev, found.st_ino

    def holds(process: Path) -> bool:
        return any((it.st_dev, it.st_ino) == wanted for it in _open_files(process))

    return holds


def _open_files(process: Path) -> Iterator[os.stat_result]:
    with suppress(OSError):  # it has ended, or is another user's
        for handle in (process / "fd").iterdir():
            with suppress(OSError):
                yield handle.stat()

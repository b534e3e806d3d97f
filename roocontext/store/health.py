"""What a database and its surroundings are like: facts only, nothing is judged and nothing changed.

Asked without opening a store, because what is looked at may be none.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, Connection, inspect
from sqlalchemy import text as sql

from roocontext.store import migrate
from roocontext.store.database import Database
from roocontext.store.engines import engine_of
from roocontext.store.schema import metadata

_MOUNTS = Path("/proc/self/mountinfo")
_PROCESSES = Path("/proc")
_PROBLEMS = 5
"""How many of the problems that an integrity check finds are told."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """An SQLite file: its rights, its sizes, what it stands on, and who else has it open.

    `filesystem` and `holders` are None where the system does not tell.
    """

    path: str
    mode: int
    is_own: bool
    size: int
    log_size: int
    filesystem: str | None
    holders: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of a database: `settings` are the engine's, as a store uses it."""

    dialect: str
    version: str
    settings: Mapping[str, str]
    schema: migrate.Standing
    differences: int
    triggers: int
    sessions: int
    problems: tuple[str, ...]
    file: FileFacts | None = None
    rights: Mapping[str, bool] = field(default_factory=dict)


def examine(url: str | Path | URL) -> Health:
    """Look at a database without changing it; what is no database at all is a typed error."""
    engine = engine_of(url, create=False, durability="full", read_only=True)
    database = Database(engine)
    try:
        with database.inspection() as connection:
            look = _sqlite if database.dialect == "sqlite" else _postgres
            return look(connection)
    finally:
        database.close()


def _sqlite(connection: Connection) -> Health:
    schema = migrate.standing(connection)
    path = next(row[2] for row in connection.exec_driver_sql("PRAGMA database_list"))
    names = ("journal_mode", "synchronous", "secure_delete", "mmap_size", "recursive_triggers")
    return Health(
        dialect="sqlite",
        version=sqlite3.sqlite_version,
        settings={name: _one(connection, f"PRAGMA {name}") for name in names},
        schema=schema,
        differences=_differences(connection, schema),
        triggers=_count(connection, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'"),
        sessions=_sessions(connection, schema),
        problems=_integrity(connection),
        file=_file(Path(path)) if path else None,
    )


_POSTGRES_SETTINGS = (
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "server_encoding",
    "autovacuum",
)


def _postgres(connection: Connection) -> Health:
    schema = migrate.standing(connection)
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
        triggers=_count(
            connection,
            "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
            " AND tgrelid = to_regclass('entries')",
        ),
        sessions=_sessions(connection, schema),
        problems=(),
        rights={
            right: bool(connection.execute(asked, {"right": right}).scalar()) for right in rights
        },
    )


def _one(connection: Connection, command: str) -> str:
    return str(connection.exec_driver_sql(command).scalar())


def _count(connection: Connection, query: str) -> int:
    return int(connection.exec_driver_sql(query).scalar_one())


def _sessions(connection: Connection, schema: migrate.Standing) -> int:
    if schema.current != schema.wanted:
        return 0
    return _count(connection, "SELECT count(*) FROM sessions WHERE purged_at IS NULL")


def _differences(connection: Connection, schema: migrate.Standing) -> int:
    """In how much the tables are not those that this version is built on."""
    return len(migrate.check(connection)) if schema.current == schema.wanted else 0


def _integrity(connection: Connection) -> tuple[str, ...]:
    """What SQLite itself finds wrong with the file; it reads all of it once."""
    rows = connection.exec_driver_sql(f"PRAGMA quick_check({_PROBLEMS})")
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


def _file(path: Path) -> FileFacts:
    found = path.stat()
    log = path.with_name(path.name + "-wal")
    return FileFacts(
        path=str(path),
        mode=stat.S_IMODE(found.st_mode),
        is_own=found.st_uid == os.geteuid(),
        size=found.st_size,
        log_size=log.stat().st_size if log.exists() else 0,
        filesystem=_filesystem(path),
        holders=_holders(found),
    )


def _filesystem(path: Path) -> str | None:
    """The type of the file system that the longest mount point above the file has."""
    best, kind = -1, None
    with suppress(OSError):
        for line in _MOUNTS.read_text().splitlines():
            mount, _, source = line.partition(" - ")
            point = mount.split()[4].encode().decode("unicode_escape")
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


def standing(url: str | Path | URL) -> migrate.Standing:
    """Where the schema of a database stands."""
    engine = engine_of(url, create=False, durability="full", read_only=True)
    database = Database(engine)
    try:
        with database.inspection() as connection:
            return migrate.standing(connection)
    finally:
        database.close()

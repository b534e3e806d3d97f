"""Upgrades a database to the schema that this version works with, or says why it cannot.

A store at the right version is recognised by one query, without loading the migrations. Migrations
only add, so a release also works with the schema of a newer one, unless the schema's row names an
oldest release that is newer (0076).
"""

import re
import threading
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, inspect
from sqlalchemy import text as sql

from roocontext.errors import ForeignDatabase, SchemaMismatch, StoreUnavailable
from roocontext.store.engine import forks
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import (
    ALIKE,
    RELEASE,
    REVISION,
    VERSION_TABLE,
    metadata,
    with_indexes,
)
from roocontext.store.engine.transaction import Transaction

_VERSION = f"SELECT version_num, oldest_release FROM {VERSION_TABLE}"  # noqa: S608 - a constant
_UPGRADE_LOCK = 0x726F6F63  # any number, the same in every release
_LOCK_TIMEOUT = "500ms"
"""How long a change waits for the tables: less than it takes a server to look for deadlocks,
which might end another program's transaction instead."""


class _OneAtATime:
    """Lets one thread use Alembic, which keeps the migration that runs in globals of its own.

    Two threads that created two databases at once ran their statements on each other's connection.
    """

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> tuple[forks.Identity, ...]:
        """Let a forked child begin with a free lock, which no thread of its parent will free."""
        self.lock = threading.Lock()
        return ()


_alembic = _OneAtATime()
forks.watch(_alembic)


class SchemaVersion(NamedTuple):
    """The version that a schema has, None where there is none, and the one that is wanted.

    `oldest_release` is the oldest release of roocontext that may use the schema.
    """

    current: str | None
    wanted: str
    oldest_release: str | None = None

    @property
    def is_usable(self) -> bool:
        """True if this release works with the schema as it is."""
        return self.current is not None and self.current >= self.wanted and not self.is_too_new

    @property
    def is_too_new(self) -> bool:
        """True if this release is older than the oldest that may use the schema."""
        return self.oldest_release is not None and _is_older(RELEASE, self.oldest_release)


NO_SCHEMA = SchemaVersion(None, REVISION)


def _is_older(release: str, other: str) -> bool:
    """Compare two releases by their numbers. A text that is none is newer than any."""
    versions = [re.match(r"[0-9]+(\.[0-9]+)*", str(text)) for text in (release, other)]
    ours, theirs = ([int(n) for n in match[0].split(".")] if match else None for match in versions)
    return theirs is None or (ours is not None and ours < theirs)


def prepare(database: Database, *, upgrade: bool, writes: bool) -> None:
    """Create or upgrade the schema; refuse a foreign database, or one that is too new."""
    if _is_usable(database):
        if writes:
            database.restore_write_ahead()
        return
    if not database.inspect(lambda connection: is_outdated(connection, upgrade=upgrade)):
        return
    database.write_ahead()
    database.migrate(_upgrade_once)


def _is_usable(database: Database) -> bool:
    """True if this release works with the schema. False may also mean that it is not known yet.

    This is one plain statement: SQLAlchemy's inspection took half of the time to open a store.
    """
    try:
        row = database.lookup(Transaction.command, _VERSION)
    # Perhaps there is no such table, or it is another program's database: the full check says
    # which.
    except StoreUnavailable:
        return False
    return _to_version(row).is_usable


def check(database: Database) -> None:
    """Check that the database answers, and that this release still works with its schema."""
    schema = _to_version(database.lookup(Transaction.command, _VERSION))
    if not schema.is_usable:
        raise _mismatch(schema)


def _upgrade_once(connection: Connection) -> None:
    # Two processes may open a new database at once. SQLite's write lock is already held here.
    if connection.dialect.name == "postgresql":
        wait_for_others(connection)
    if is_outdated(connection):  # unless another process upgraded it in the meantime
        take_tables(connection)
        _upgrade(connection)


def take_tables(connection: Connection) -> None:
    """Lock the tables on a server, all at once and before they are counted, or give up soon.

    Everyone who comes later waits for a statement that waits for a lock. So it must not wait long
    for a transaction that takes its time, such as a dump: the change is tried again from outside.
    """
    if connection.dialect.name == "sqlite":
        return
    # In the order of the schema, `sessions` first: most transactions begin with it, and in another
    # order the upgrade would hold what they want next while it waits for what they have.
    present = [name for name in metadata.tables if inspect(connection).has_table(name)]
    if present:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        connection.exec_driver_sql(f"LOCK TABLE {', '.join(present)} IN ACCESS EXCLUSIVE MODE")


def wait_for_others(connection: Connection) -> None:
    """Wait on a server until no one else changes the schema, which takes as long as it takes."""
    # SQLAlchemy does not know types whose names the server quotes.
    for setting in ("lock_timeout", "statement_timeout", "quote_all_identifiers"):
        connection.exec_driver_sql(f"SET LOCAL {setting} = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")


class Revision(NamedTuple):
    """A migration: its version and what it brought."""

    revision: str
    brought: str


def schema_version(connection: Connection) -> SchemaVersion:
    """The schema's version, and the one that is wanted."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return NO_SCHEMA
    return _to_version(connection.execute(sql(_VERSION)).first())


def _to_version(row: Sequence[Any] | None) -> SchemaVersion:
    return NO_SCHEMA if row is None else SchemaVersion(row[0], REVISION, row[1])


def check_is_wanted(connection: Connection) -> None:
    """Refuse a schema of another version than the one that is wanted."""
    schema = schema_version(connection)
    if schema.current != schema.wanted:
        raise _mismatch(schema)


def all_revisions() -> list[Revision]:
    """Every migration that this release has, oldest first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - heavy, rarely needed

    with as_file(_folder()) as folder:
        scripts = ScriptDirectory(str(folder)).walk_revisions()
        return [Revision(script.revision, script.doc) for script in scripts][::-1]


def differences(connection: Connection) -> list[Any]:
    """The differences of the schema from the tables of this version; empty when equal."""
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415 - heavy, rarely needed
    from alembic.migration import MigrationContext  # noqa: PLC0415

    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": VERSION_TABLE,
            # A database may also hold an application's own tables.
            "include_object": lambda _object, name, kind, _reflected, _compare: (
                kind != "table" or name in ALIKE
            ),
        },
    )
    return list(compare_metadata(context, with_indexes()))


def foreign(connection: Connection) -> str | None:
    """Why no store can be created in a database without our schema; None if one can."""
    taken = {*inspect(connection).get_table_names(), *inspect(connection).get_view_names()}
    if ours := sorted(taken & {*metadata.tables, "messages", "effective_history"}):
        named = f"The database has tables or views named {', '.join(ours)}"
        return f"{named}, but without a version of roocontext's schema."
    if not taken or connection.dialect.name != "sqlite":
        return None
    what = (
        "a table or view that is" if len(taken) == 1 else f"{len(taken)} tables and views that are"
    )
    return f"The database holds {what} not roocontext's."


def is_outdated(connection: Connection, *, upgrade: bool = True) -> bool:
    """True if the schema has to be migrated; an error if it must not be."""
    schema = schema_version(connection)
    if schema.is_usable:
        return False
    if schema.current is None and (stranger := foreign(connection)):
        raise ForeignDatabase(stranger)
    if schema.is_too_new or not upgrade:
        raise _mismatch(schema)
    return True


def _mismatch(schema: SchemaVersion) -> SchemaMismatch:
    facts: dict[str, Any] = {**schema._asdict(), "release": RELEASE}
    current, wanted, oldest = schema
    if schema.is_too_new:
        return SchemaMismatch(
            f"The schema {current} needs roocontext {oldest} or newer, and this is {RELEASE}.",
            **facts,
            advice="Install a newer release of roocontext.",
        )
    line = f"The schema is {current or 'missing'}, but this release needs {wanted}."
    return SchemaMismatch(line, **facts)


def _upgrade(connection: Connection) -> None:
    """Run the missing migrations, all or none; no row may be lost on the way."""
    from alembic import command  # noqa: PLC0415 - loaded when there is something to migrate
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    # A migration may copy tables, on SQLite even for a changed check: counting is the simplest
    # proof that none was lost.
    before = _rows(connection)
    with as_file(_folder()) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        try:
            with _alembic.lock:
                command.upgrade(config, REVISION)
        except CommandError:
            current = schema_version(connection).current
            raise SchemaMismatch(
                f"The schema's version, {current}, belongs to no release of roocontext.",
                current=current,
                wanted=REVISION,
                advice="Restore a backup, or name another database.",
            ) from None
    after = _rows(connection)
    lost = {table: rows - after[table] for table, rows in before.items() if after[table] < rows}
    if lost:
        raise SchemaMismatch(
            f"The upgrade would lose rows, so it was rolled back: {lost}.",
            wanted=REVISION,
            advice="Keep the release that wrote it, and report this.",
        )


def _rows(connection: Connection) -> dict[str, int]:
    present = set(inspect(connection).get_table_names())
    return {
        name: connection.execute(sql(f"SELECT count(*) FROM {name}")).scalar_one()  # noqa: S608
        for name in ("sessions", "entries")
        if name in present
    }


def _folder() -> Any:
    """The migrations: installed inside the package, or next to it in a bare checkout."""
    try:
        return files("roocontext.migrations")
    except ModuleNotFoundError:
        return Path(__file__).parents[2] / "migrations"

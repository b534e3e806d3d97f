"""Upgrades a database to the schema that this version works with, or says why it cannot.

A store at the right version is recognised by one query, without loading the migrations.
"""

from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, inspect
from sqlalchemy import text as sql

from roocontext.errors import ForeignDatabase, SchemaMismatch, StoreUnavailable
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import ALIKE, REVISION, VERSION_TABLE, metadata, with_indexes
from roocontext.store.engine.transaction import Transaction

_VERSION = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant
_UPGRADE_LOCK = 0x726F6F63  # any number, the same in every release


def prepare(database: Database, *, upgrade: bool, writes: bool) -> None:
    """Create or upgrade the schema; refuse a foreign database, or one from the future."""
    if _is_current(database):
        if writes:
            database.restore_write_ahead()
        return
    if not database.inspect(lambda connection: _outdated(connection, upgrade=upgrade)):
        return
    database.write_ahead()
    database.migrate(_upgrade_once)


def _is_current(database: Database) -> bool:
    """True if the schema is the current one. False may also mean that it is not known yet.

    This is one plain statement: SQLAlchemy's inspection took half of the time to open a store.
    """
    try:
        return database.lookup(Transaction.command, _VERSION) == (REVISION,)
    # Perhaps there is no such table, or it is another program's database: the full check says
    # which.
    except StoreUnavailable:
        return False


def _upgrade_once(connection: Connection) -> None:
    # Two processes may open a new database at once. SQLite's write lock is already held here.
    if connection.dialect.name == "postgresql":
        wait_for_others(connection)
    if _outdated(connection, upgrade=True):  # unless another process upgraded it in the meantime
        _upgrade(connection)


def wait_for_others(connection: Connection) -> None:
    """Wait on a server until no one else changes the schema, which takes as long as it takes."""
    for timeout in ("lock_timeout", "statement_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {timeout} = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")


class SchemaVersion(NamedTuple):
    """The version that a schema has, None where there is none, and the one that is wanted."""

    current: str | None
    wanted: str


class Revision(NamedTuple):
    """A migration: its version and what it brought."""

    revision: str
    brought: str


def schema_version(connection: Connection) -> SchemaVersion:
    """The schema's version, and the one that is wanted."""
    return SchemaVersion(_revision(connection), REVISION)


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


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(sql(_VERSION)).scalar()
    return revision


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


def _outdated(connection: Connection, *, upgrade: bool) -> bool:
    """True if the schema has to be migrated; an error if it must not be."""
    current = _revision(connection)
    if current == REVISION:
        return False
    facts: Mapping[str, str | None] = {"current": current, "wanted": REVISION}
    if current is None:
        if stranger := foreign(connection):
            raise ForeignDatabase(stranger)
    elif current > REVISION:
        raise SchemaMismatch(
            f"The schema is {current}, newer than {REVISION}, which this release works with.",
            **facts,
            advice="Install a newer release of roocontext.",
        )
    if not upgrade:
        raise SchemaMismatch(
            f"The schema is {current or 'missing'}, and {REVISION} is wanted.", **facts
        )
    return True


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
            command.upgrade(config, REVISION)
        except CommandError:
            current = _revision(connection)
            raise SchemaMismatch(
                f"The schema's version, {current}, belongs to no release of roocontext.",
                current=current,
                wanted=REVISION,
                advice="Go back to a backup, or give another database.",
            ) from None
    after = _rows(connection)
    lost = {table: rows - after[table] for table, rows in before.items() if after[table] < rows}
    if lost:
        raise SchemaMismatch(
            f"The upgrade would lose rows, and was taken back: {lost}.",
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

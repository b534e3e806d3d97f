"""Distributes a store over the nodes of a Citus cluster, so that each holds a part of the sessions.

All of it is one transaction: a failure leaves the store as it was. The steps are SQL that a person
can read beforehand, and concern only tables that are not distributed yet. `schema.DISTRIBUTION`
says where the rows of each table are stored.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError

from roocontext.errors import DistributionRefused, InvalidOption
from roocontext.store.engine import migrate
from roocontext.store.engine.check_arguments import check_maybe
from roocontext.store.engine.cluster import IS_CITUS, distributed_tables
from roocontext.store.engine.database import Database
from roocontext.store.engine.driver_errors import RETRYABLE
from roocontext.store.engine.engines import EngineOptions, engine_of
from roocontext.store.engine.roles import secured_again
from roocontext.store.engine.schema import DISTRIBUTION, Distribution, sessions

_MOST_SHARDS = 64_000
"""The largest value that the setting citus.shard_count allows."""

_PATIENCE = "3s"
_STOP = "Nothing was changed. Stop the programs that use the store, and distribute it then."

_IS_COORDINATOR = "SELECT groupid = 0 FROM pg_dist_local_group"
_WRITERS = (
    "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_class ON pg_class.oid = relation"
    " WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND relnamespace = quote_ident(current_schema())::regnamespace AND relname = ANY(:tables)"
    " AND mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock')"
    " AND granted AND pid <> pg_backend_pid()"
)
_APPENDS = (
    "SELECT oid::regprocedure::text FROM pg_proc WHERE proname ~ '^roocontext_append_v'"
    " AND pronamespace = quote_ident(current_schema())::regnamespace ORDER BY proname"
)
# Those that a TRUNCATE fires, which is bit 32 of their type.
_TRUNCATE_GUARDS = (
    "SELECT relname, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
    " WHERE relnamespace = quote_ident(current_schema())::regnamespace AND NOT tgisinternal"
    " AND tgenabled <> 'D' AND tgtype & 32 <> 0"
)

# What says what is wrong by itself: the connection, resources, shutdowns, rights.
_PLAIN = ("08", "53", "57", "42501")


@dataclass(frozen=True, slots=True)
class DistributionSteps:
    """The steps that distribute a store, none if it is distributed already.

    `rows` are those of each table that was distributed, counted before and after. A dry run counts
    nothing.
    """

    steps: tuple[str, ...]
    rows: Mapping[str, int]


def distribute(
    url: str | Path | URL, *, shards: int | None = None, dry_run: bool = False
) -> DistributionSteps:
    """Distribute the store of a database over the nodes of its Citus cluster.

    `shards` is how many parts each table is split into, by default as many as the server is set to.
    A store that is distributed already is left as it is.
    """
    check_maybe("shards", shards, least=1)
    if shards is not None and shards > _MOST_SHARDS:
        raise InvalidOption(f"{shards:,} is more than {_MOST_SHARDS:,} shards.", name="shards")
    engine = engine_of(url, EngineOptions(read_only=dry_run))
    if engine.server is None:
        raise DistributionRefused("An SQLite database cannot be distributed.")
    with closing(Database(engine)) as database:
        if dry_run:
            steps = database.inspect(lambda connection: _steps(connection, shards))
            return DistributionSteps(steps, {})
        return database.migrate(lambda connection: _distributed(connection, shards))


def _distributed(connection: Connection, shards: int | None) -> DistributionSteps:
    migrate.wait_for_others(connection)
    if not _steps(connection, shards):
        return DistributionSteps((), {})
    tables = [placed.table for placed in _missing(connection)]
    _lock(connection, tables)
    before = _rows(connection, tables)
    steps = _steps(connection, shards)
    for number, step in enumerate(steps, 1):
        try:
            connection.exec_driver_sql(step, execution_options={"no_parameters": True})
        except DBAPIError as error:
            raise _refused(error, f"step {number} of {len(steps)}, {step}") from None
    after = _rows(connection, tables)
    if after != before:
        raise DistributionRefused(
            f"The distributed tables would have other numbers of rows: {after} instead of"
            f" {before}. Nothing was changed."
        )
    return DistributionSteps(steps, after)


def _steps(connection: Connection, shards: int | None) -> tuple[str, ...]:
    """The statements that distribute what is not distributed yet."""
    _check(connection)
    missing = _missing(connection)
    if not missing:
        return ()
    moved = [placed for placed in missing if placed.column is not None]
    split = "" if shards is None else f", shard_count => {shards}"
    there = {placed.table for placed in moved}
    guards = [row for row in connection.exec_driver_sql(_TRUNCATE_GUARDS) if row[0] in there]
    # Policies of one server have subqueries, which a distributed table does not take.
    unsecured, secured = secured_again(connection, sorted(there))
    return (
        # The tables are locked, so nothing is gained by several connections to a node; and a
        # function cannot be created after several were used.
        "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
        # A guard only looks at rows of its own session, which are in the same shard.
        "SET LOCAL citus.enable_unsafe_triggers = on",
        *unsecured,
        *(
            f"SELECT create_distributed_table('{placed.table}', '{placed.column}',"
            f" colocate_with => '{placed.colocated_with or 'none'}'"
            f"{'' if placed.colocated_with else split})"
            for placed in moved
        ),
        # The rows that were copied are still in the coordinator's own table, where no statement
        # finds them, not even a redaction.
        *(f"ALTER TABLE {table} DISABLE TRIGGER {guard}" for table, guard in guards),
        *(
            f"SELECT truncate_local_data_after_distributing_table('{table.table}')"
            for table in moved
        ),
        *(f"ALTER TABLE {table} ENABLE TRIGGER {guard}" for table, guard in guards),
        *(
            f"SELECT create_reference_table('{placed.table}')"
            for placed in missing
            if placed.column is None
        ),
        *_functions(connection),
        *secured,
    )


def _functions(connection: Connection) -> list[str]:
    """The steps that let an append run on the node that has its session."""
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    steps = []
    for signature in connection.exec_driver_sql(_APPENDS).scalars():
        if schema != "public":  # which a node's own connections may not look in
            steps.append(f"ALTER FUNCTION {signature} SET search_path = {schema}, pg_catalog")
        steps.append(
            f"SELECT create_distributed_function('{signature}', 'session',"
            f" colocate_with => '{sessions.name}')"
        )
    return steps


def _check(connection: Connection) -> None:
    """Refuse a database without our schema, and one that is not the coordinator of a cluster."""
    migrate.check_is_wanted(connection)
    if not connection.exec_driver_sql(IS_CITUS).scalar_one():
        raise DistributionRefused(
            "The database has no extension `citus`.",
            advice="Create it in the database on each node, and add the workers with"
            " citus_add_node on the coordinator.",
        )
    if not connection.exec_driver_sql(_IS_COORDINATOR).scalar_one():
        raise DistributionRefused(
            "This server is a worker of its cluster.", advice="Name the coordinator in the URL."
        )


def _missing(connection: Connection) -> list[Distribution]:
    placed = distributed_tables(connection)
    return [placement for placement in DISTRIBUTION if placement.table not in placed]


def _lock(connection: Connection, tables: Sequence[str]) -> None:
    """Keep writers out, or refuse if there are any."""
    writers = connection.execute(sql(_WRITERS), {"tables": list(tables)}).scalar_one()
    if writers:
        others = "1 other transaction is" if writers == 1 else f"{writers} other transactions are"
        raise DistributionRefused(f"{others} writing to the store.", advice=_STOP)
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
    try:
        connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN SHARE ROW EXCLUSIVE MODE")
    except DBAPIError as error:
        raise _refused(error, "the lock on the tables") from None


def _refused(error: DBAPIError, what: str) -> BaseException:
    """Our error for a step that the server refused. A driver's text may quote content."""
    code: Any = getattr(error.orig, "sqlstate", None)
    if code in RETRYABLE:
        return DistributionRefused("Other transactions use the store's tables.", advice=_STOP)
    if code is None or code.startswith(_PLAIN):
        return error
    return DistributionRefused(f"The server refused {what} ({code}).", code=code)


def _rows(connection: Connection, tables: Sequence[str]) -> dict[str, int]:
    counted = "SELECT count(*) FROM {}"
    return {
        table: connection.exec_driver_sql(counted.format(table)).scalar_one() for table in tables
    }

"""Facts about the cluster that a store is distributed over. Nothing is judged or changed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from roocontext.store.engine.schema import DISTRIBUTION, entries

IS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
# A cast reads a name as SQL does, so that one without quotes may be that of another schema.
_DISTRIBUTED = (
    "SELECT relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid"
    " WHERE relnamespace = quote_ident(current_schema())::regnamespace"
)
_NODES = (
    "SELECT nodename || ':' || nodeport, isactive, shouldhaveshards, coalesce(success, false),"
    " coalesce(string_to_array(result, '|'), '{}') FROM pg_dist_node LEFT JOIN"
    " run_command_on_all_nodes($command$SELECT concat_ws('|', current_setting('plan_cache_mode'),"
    " current_setting('max_prepared_transactions'),"
    " coalesce(current_setting('output_plugin_libraries', true), 'citus'))$command$)"
    " USING (nodeid) WHERE noderole = 'primary' ORDER BY groupid"
)
# The triggers, checks and policies of a table or a shard, and its size. That row-level security is
# enabled, and forced, counts as one more policy each.
_GUARDS = (
    "SELECT (SELECT count(*) FROM pg_trigger WHERE tgrelid = t AND NOT tgisinternal"
    " AND tgenabled <> 'D') || '|' || (SELECT count(*) FROM pg_constraint WHERE conrelid = t"
    " AND contype = 'c') || '|' || (SELECT count(*) FROM pg_policy WHERE polrelid = t)"
    " + relrowsecurity::int + relforcerowsecurity::int || '|' || pg_total_relation_size(t)"
    " FROM (SELECT '{}'::regclass AS t) AS n JOIN pg_class ON pg_class.oid = t"
)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node: its part of the store, and the settings that matter.

    `answers` is False if the coordinator cannot reach it. Then nothing more is known.
    """

    name: str
    is_active: bool
    takes_shards: bool
    answers: bool
    plan_cache_mode: str = ""
    prepared_transactions: int = 0
    output_plugins: str = ""
    shards: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that a store is distributed over.

    A node's `shards` are those of the log. `undistributed` are the tables that are on the
    coordinator alone; `unguarded`, `unchecked` and `unsecured` are the shards that lack a trigger,
    a check or a policy of their table.
    """

    nodes: tuple[NodeFacts, ...]
    undistributed: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    unsecured: tuple[str, ...] = ()


def distributed_tables(connection: Connection) -> set[str]:
    """The tables that are distributed; none on a plain server."""
    if not connection.exec_driver_sql(IS_CITUS).scalar_one():
        return set()
    return set(connection.exec_driver_sql(_DISTRIBUTED).scalars())


def cluster_facts(connection: Connection) -> ClusterFacts | None:
    """The cluster of a distributed store; None if the store is on one server."""
    distributed = distributed_tables(connection)
    if entries.name not in distributed:
        return None
    unguarded, unchecked, unsecured = [], [], []
    shards: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for table in [
        placement.table
        for placement in DISTRIBUTION
        if placement.column and placement.table in distributed
    ]:
        whole = connection.exec_driver_sql(_GUARDS.format(table)).scalar_one().split("|")
        for node, shard, found in _shards(connection, table):
            triggers, checks, policies, size = found
            shards[node] += table == entries.name
            sizes[node] += size
            unguarded += [f"{table}_{shard}"] * (triggers < int(whole[0]))
            unchecked += [f"{table}_{shard}"] * (checks < int(whole[1]))
            unsecured += [f"{table}_{shard}"] * (policies < int(whole[2]))
    return ClusterFacts(
        tuple(_nodes(connection, shards, sizes)),
        tuple(placement.table for placement in DISTRIBUTION if placement.table not in distributed),
        tuple(unguarded),
        tuple(unchecked),
        tuple(unsecured),
    )


def silent_nodes(connection: Connection) -> tuple[str, ...]:
    """The nodes that the coordinator of a cluster cannot reach."""
    if not connection.exec_driver_sql(IS_CITUS).scalar_one():
        return ()
    nodes = _nodes(connection, Counter(), Counter())
    return tuple(node.name for node in nodes if not node.answers)


def _shards(connection: Connection, table: str) -> Iterator[tuple[str, int, list[int]]]:
    """The node and number of each shard of a table that answers, with its guards and size."""
    rows = connection.exec_driver_sql(
        "SELECT nodename || ':' || nodeport, shardid, result FROM run_command_on_placements("  # noqa: S608 - constants
        f"'{table}', $command${_GUARDS.format('%%s')}$command$) WHERE success ORDER BY shardid"
    )
    for node, shard, result in rows:
        yield node, shard, [int(number) for number in result.split("|")]


def _nodes(
    connection: Connection, shards: Counter[str], sizes: Counter[str]
) -> Iterator[NodeFacts]:
    for name, is_active, takes_shards, answers, found in connection.exec_driver_sql(_NODES):
        known = (found[0], int(found[1]), found[2], shards[name], sizes[name]) if answers else ()
        yield NodeFacts(name, is_active, takes_shards, answers, *known)

"""The doctor's findings about a distributed store, and the commands that distribute one."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import Store
from roocontext.store.engine.cluster import silent_nodes
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import engine_of
from roocontext.store.engine.health import examine_database
from roocontext.store.engine.roles import secure
from support import showcase
from support.citus_server import SHARDS, Citus
from support.cli_process import CommandLine

EXPECTED = {"fsync", "full_page_writes"}
"""What is wrong with the tests' servers on purpose: they do not wait for a disk."""


def findings(run: CommandLine) -> dict[str, tuple[str, str]]:
    document = run("doctor", "--json").document
    return {one["check"]: (one["status"], one["says"]) for one in document["findings"]}


def shards(postgres: Citus, url: str, table: str) -> list[tuple[str, str]]:
    """The shards of a table: the URL of the database of its node, and its name there."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT nodename, nodeport, shardid FROM pg_dist_shard"
            " JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)"
            " WHERE logicalrelid = %s::regclass ORDER BY shardid",
            [table],
        ).fetchall()
    database = make_url(url).database
    return [
        (postgres.on_node(postgres.nodes.index((host, port)), database), f"{table}_{shard}")
        for host, port, shard in rows
    ]


@pytest.fixture
def damaged(postgres: Citus) -> Iterator[str]:
    """A distributed store whose nodes a test damages, so that nobody uses it again."""
    url = postgres.fresh()
    yield url
    postgres.drop(url, again=False)


def test_distributed_store_is_examined(postgres_url, command_line):
    showcase.build(postgres_url)
    found = findings(command_line(postgres_url))
    assert {check for check, (status, _) in found.items() if status == "bad"} <= EXPECTED
    assert found["nodes"] == ("ok", "all of 3 nodes answer, 2 take shards")
    assert found["schema"] == ("ok", "0001, 6 sessions")
    for check in ("balance", "tables", "shards", "plans", "commits", "moves", "entries"):
        assert found[check][0] == "ok", found[check]
    facts = examine_database(postgres_url).cluster
    assert facts is not None
    assert [node.shards for node in facts.nodes] == [0, SHARDS / 2, SHARDS / 2]
    assert all(node.bytes > 0 for node in facts.nodes[1:])


def test_store_on_one_server_has_no_cluster(one_server, command_line):
    assert examine_database(one_server).cluster is None
    assert "nodes" not in findings(command_line(one_server))


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("entries", "ALTER TABLE {0} DISABLE TRIGGER ALL"),
        ("sessions", "ALTER TABLE {0} DROP CONSTRAINT sessions_rules"),
        ("spans", "ALTER TABLE {0} DROP CONSTRAINT spans_range"),
        ("entries", "DROP POLICY roocontext_owner ON {0}"),
        ("turns", "ALTER TABLE {0} NO FORCE ROW LEVEL SECURITY"),
    ],
)
def test_shard_without_a_guard_is_named(postgres, damaged, command_line, table, damage):
    secure(damaged)
    node, shard = shards(postgres, damaged, table)[1]
    with psycopg.connect(node) as connection:
        connection.execute("SET citus.enable_manual_changes_to_shards = on")
        connection.execute(damage.format(shard))
    status, says = findings(command_line(damaged))["shards"]
    assert status == "warn"
    assert says == f"1 lack triggers, checks or policies of their table: {shard}"


def test_what_is_not_distributed_is_named(one_server, command_line, sql):
    run = command_line(one_server)
    assert run("db", "distribute").code == 0
    sql(one_server, "SELECT undistribute_table('facts')")
    assert findings(run)["tables"] == (
        "bad",
        "not distributed: facts. Run `roocontext db distribute`",
    )


def test_setting_with_which_citus_refuses_statements(postgres, damaged, command_line):
    database = make_url(damaged).database
    with psycopg.connect(postgres.on_node(2, database), autocommit=True) as worker:
        worker.execute(f"ALTER DATABASE {database} SET plan_cache_mode = 'force_generic_plan'")
    status, says = findings(command_line(damaged))["plans"]
    assert status == "bad"
    assert says.endswith(":".join(map(str, postgres.nodes[2])))


def test_every_node_of_a_cluster_answers(postgres_url):
    database = Database(engine_of(postgres_url))
    assert database.inspect(silent_nodes) == ()
    database.close()


def test_command_shows_what_it_did(one_server, command_line):
    showcase.build(one_server)
    run = command_line(one_server)
    listed = run("db", "distribute", "--shards", "2", "--dry-run")
    assert listed.code == 0
    assert "colocate_with => 'none', shard_count => 2);\n" in listed.out
    document = run("db", "distribute", "--shards", "2", "--json").document
    assert document["rows"]["sessions"] == 6
    assert not document["dry_run"]
    again = run("db", "distribute")
    assert (again.code, again.out) == (0, "The store is distributed already. Nothing changed.\n")


def test_new_store_is_distributed(one_server, command_line, sql):
    sql(one_server, "CREATE SCHEMA agents")
    url = make_url(one_server).update_query_dict({"options": "-c search_path=agents"})
    run = command_line(url.render_as_string(hide_password=False))
    done = run("db", "upgrade", "--distribute")
    assert done.code == 0
    assert done.out == (
        "Created the schema, version 0001.\nThe store is distributed over the nodes of its"
        " cluster.\n"
    )
    assert run("db", "upgrade", "--distribute", "--json").document["distributed"] is True
    assert run("db", "upgrade", "--json").document["distributed"] is None
    with Store.open(url) as store:
        store.create("s").append("user", "hello")
    assert run("verify").code == 0

"""A store is distributed as a whole or not at all."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import Plan, Store, StoreUnavailable
from roocontext.errors import DistributionRefused, InvalidOption, SchemaMismatch
from roocontext.log.counting import BYTES
from roocontext.store.engine.citus import distribute
from roocontext.store.engine.schema import DISTRIBUTION, metadata
from support import showcase

DISTRIBUTED = "SELECT logicalrelid::text FROM pg_dist_partition ORDER BY 1"
SETTINGS = 2
"""The steps that are not about a table: settings of the transaction."""


def state(store: Store) -> dict[str, Any]:
    """All reads of each session."""
    return {
        info.session_id: (
            info,
            chat.head(),
            chat.view(),
            [*chat.audit()],
            chat.tokens(BYTES),
            chat.verify().ok,
        )
        for info in store.sessions()
        for chat in [store.session(info.session_id)]
    }


def rows(sql: Any, url: str) -> dict[str, int]:
    counts = {name: sql(url, f"SELECT count(*) FROM {name}")[0][0] for name in metadata.tables}
    return {**counts, "roocontext_version": 1}


@contextmanager
def transaction(url: str, statement: str) -> Iterator[None]:
    """Somebody's transaction that stays open."""
    with psycopg.connect(url) as other:
        other.execute(statement)
        yield


def test_store_is_the_same_afterwards(one_server, sql):
    showcase.build(one_server)
    with Store.open(one_server) as store:
        chat = store.create("full")
        for number in range(20):
            chat.append("user", f"word{number}", client_id=str(number))
        chat.commit(Plan.truncate(chat.view(), range(3, 8), "M"))
        chat.rewind(15)
        chat.redact(2)
        chat.fork(10)
        store.purge(store.create().id)
        store.index()
        before, counts = state(store), rows(sql, one_server)
        done = distribute(one_server)
        assert done.rows == counts
        assert len(done.steps) > len(DISTRIBUTION)
        # by the same store, which has connections with prepared statements
        assert state(store) == before
        assert [hit.seq for hit in store.search("word12")]
        chat.append("user", "word19", client_id="19")
        assert rows(sql, one_server)["entries"] == counts["entries"]
        chat.append("user", "more", client_id="more")
        assert chat.verify().ok
    assert [table for (table,) in sql(one_server, DISTRIBUTED)] == sorted(done.rows)


def test_nothing_is_left_in_the_tables_of_the_coordinator(one_server, postgres, sql):
    showcase.build(one_server)
    distribute(one_server)
    sizes = [
        sql(one_server, f"SELECT pg_relation_size('{table}')")[0][0] for table in metadata.tables
    ]
    assert sizes == [0] * len(metadata.tables)


def test_guards_hold_on_every_node(one_server, postgres, sql):
    with Store.open(one_server) as store:
        store.create("s").append("user", "hello")
    distribute(one_server)
    database = make_url(one_server).database
    for node in range(len(postgres.nodes)):
        url = postgres.on_node(node, database)
        for change in (
            "UPDATE entries SET message_id = 'x'",
            "DELETE FROM entries",
            "TRUNCATE entries",
            "DELETE FROM sessions",
            "UPDATE sessions SET parent = 'x'",
            "UPDATE sessions SET messages = -1",
            "INSERT INTO spans VALUES ('s', 0, 0, 0)",
        ):
            with pytest.raises(psycopg.errors.IntegrityError):
                sql(url, change)
        # any node can be asked for the store
        with Store.open(url) as store:
            store.session("s").append("user", f"from node {node}")
            assert store.session("s").verify().ok


def test_distributed_store_is_left_as_it_is(one_server, sql):
    assert distribute(one_server, shards=3).steps
    assert distribute(one_server).steps == ()
    assert distribute(one_server, dry_run=True).steps == ()
    shards = "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'entries'::regclass"
    assert sql(one_server, shards) == [(3,)]


def test_dry_run_lists_the_steps_that_a_person_could_run(one_server, sql):
    listed = distribute(one_server, dry_run=True)
    assert listed.rows == {}
    assert sql(one_server, DISTRIBUTED) == []
    sql(one_server, *listed.steps)
    assert distribute(one_server).steps == ()


def test_table_that_is_new_is_distributed_too(one_server, sql):
    """As a later release adds it to a store that was distributed before."""
    distribute(one_server)
    sql(one_server, "SELECT undistribute_table('facts')")
    done = distribute(one_server)
    assert done.rows == {"facts": 0}
    of_functions = [step for step in done.steps if "roocontext_append" in step]
    assert len(done.steps) == SETTINGS + 2 + len(of_functions)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET title = 'x' WHERE session_id = 's'",
        "SELECT * FROM sessions WHERE session_id = 's' FOR UPDATE",
        "INSERT INTO search_marks VALUES ('s', 1)",
    ],
)
def test_while_somebody_writes_it_is_refused(one_server, sql, statement):
    with Store.open(one_server) as store:
        store.create("s")
    with (
        transaction(one_server, statement),
        pytest.raises(DistributionRefused, match=r"1 other transaction.*Nothing was changed"),
    ):
        distribute(one_server)
    assert sql(one_server, DISTRIBUTED) == []
    assert distribute(one_server).steps


def test_reader_in_the_way_is_no_reason_to_wait_for_ever(one_server, sql):
    with (
        transaction(one_server, "SELECT * FROM entries"),
        pytest.raises(DistributionRefused, match="Other transactions use"),
    ):
        distribute(one_server)
    assert sql(one_server, DISTRIBUTED) == []


def _of_an_application(sql: Any, url: str) -> None:
    sql(url, 'CREATE TABLE app (session_id text COLLATE "C" REFERENCES sessions)')


def _late(sql: Any, url: str) -> None:
    sql(
        url,
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'secret' USING ERRCODE = 'feature_not_supported'; END $$",
        "CREATE EVENT TRIGGER no_alter ON ddl_command_start WHEN TAG IN ('ALTER TABLE')"
        " EXECUTE FUNCTION refuse()",
    )


@pytest.mark.parametrize("obstacle", [_of_an_application, _late])
def test_failure_leaves_the_store_on_one_server(one_server, sql, obstacle):
    showcase.build(one_server)
    with Store.open(one_server) as store:
        before = state(store)
        obstacle(sql, one_server)
        with pytest.raises(DistributionRefused, match=r"refused step \d+ of \d+") as refused:
            distribute(one_server)
        assert "secret" not in str(refused.value)
        assert sql(one_server, DISTRIBUTED) == []
        assert state(store) == before
        store.session("parser").append("user", "and on")
        assert store.session("parser").verify().ok


def test_two_at_once_distribute_it_once(one_server):
    done: list[Any] = []
    runs = [threading.Thread(target=lambda: done.append(distribute(one_server))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sorted(bool(each.steps) for each in done) == [False, True]


def test_writers_meanwhile_lose_nothing(one_server):
    stop = threading.Event()
    sent = dict.fromkeys(range(4), 0)

    def write(number: int) -> None:
        with Store.open(one_server) as store:
            chat = store.create(f"w{number}")
            while not stop.is_set():
                try:
                    chat.append("user", str(sent[number]), client_id=str(sent[number]))
                    sent[number] += 1
                except StoreUnavailable:
                    time.sleep(0.01)

    writers = [threading.Thread(target=write, args=[number]) for number in sent]
    for writer in writers:
        writer.start()
    try:
        time.sleep(0.3)
        while True:
            try:
                assert distribute(one_server).steps
                break
            except DistributionRefused:  # somebody was writing
                time.sleep(0.01)
        so_far = dict(sent)
        while any(sent[number] < so_far[number] + 5 for number in sent):
            assert all(writer.is_alive() for writer in writers)
            time.sleep(0.01)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    with Store.open(one_server) as store:
        for number, count in sent.items():
            chat = store.session(f"w{number}")
            assert [message.content for message in chat.view().messages] == [
                *map(str, range(count))
            ]
            assert chat.verify().ok


@pytest.mark.parametrize("schema", ["agents", '"Agents"'])
def test_schema_of_its_own(one_server, sql, schema):
    sql(one_server, f"CREATE SCHEMA {schema}")
    url = make_url(one_server).update_query_dict({"options": f"-c search_path={schema}"})
    with Store.open(url) as store:
        chat = store.create("s")
        assert distribute(url).rows["sessions"] == 1
        chat.append("user", "hello")
        chat.append("user", "hello again")
        assert chat.verify().ok
    placed = "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_dist_partition"
    assert sql(one_server, f"{placed} JOIN pg_class ON oid = logicalrelid") == [(schema,)]


def test_what_cannot_be_distributed_is_refused(one_server, postgres, tmp_path):
    alone = postgres.empty()
    with pytest.raises(SchemaMismatch, match="missing"):
        distribute(alone)
    Store.open(alone).close()
    with pytest.raises(DistributionRefused, match="no extension"):
        distribute(alone)
    with pytest.raises(InvalidOption):
        distribute(one_server, shards=0)
    with pytest.raises(InvalidOption, match="64,000"):
        distribute(one_server, shards=64_001)
    distribute(one_server)
    worker = postgres.on_node(1, make_url(one_server).database)
    with pytest.raises(DistributionRefused, match="worker"):
        distribute(worker)
    postgres.drop(alone)

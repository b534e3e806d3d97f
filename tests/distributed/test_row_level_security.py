"""Row-level security on a cluster: every node shows a role the sessions of one owner only."""

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from conformance.sessions.test_owners import ID, Stores, attack, theirs
from roocontext import Store
from roocontext.errors import InvalidOption
from roocontext.store.engine.citus import distribute
from roocontext.store.engine.roles import grants, quoted_role, secure
from roocontext.store.engine.schema import ERASURES
from support.citus_server import Citus

TABLES = ["sessions", *(erasure.table.name for erasure in ERASURES)]
ON_SHARDS = """SELECT nodename || ':' || nodeport, shardid, result FROM run_command_on_placements(
    %s, 'SELECT relrowsecurity AND relforcerowsecurity AND EXISTS (SELECT FROM pg_policy WHERE
        polrelid = pg_class.oid) FROM pg_class WHERE oid = ''%%s''::regclass')"""


class Login:
    """A role that owns nothing and can connect to each node, as nodes do to each other."""

    def __init__(self, url: str) -> None:
        self.name = f"login_{make_url(url).database}"
        self._owner = psycopg.connect(url, autocommit=True)
        self._owner.execute(f"CREATE ROLE {self.name} LOGIN")
        for grant in grants(self.name):
            self._owner.execute(grant)

    def url(self, url: str) -> str:
        """The URL of a database for this role."""
        return make_url(url).set(username=self.name).render_as_string(hide_password=False)

    def drop(self) -> None:
        """Remove it."""
        self._owner.execute(f"DROP OWNED BY {quoted_role(self.name)}")
        self._owner.execute(f"DROP ROLE {quoted_role(self.name)}")
        self._owner.close()


@pytest.fixture
def database(postgres: Citus) -> Iterator[str]:
    """A distributed store that nobody uses again."""
    url = postgres.fresh()
    yield url
    postgres.drop(url, again=False)


@pytest.fixture
def login(database: str) -> Iterator[Login]:
    role = Login(database)
    yield role
    role.drop()


def owned(stack: ExitStack, url: str, name: str) -> Store:
    return stack.enter_context(Store.open(url, owner=name, upgrade=False))


@pytest.mark.parametrize("node", [0, 1, 2])
def test_role_that_owns_nothing_attacks_from_every_node(postgres, database, login, node):
    secure(database)
    there = login.url(postgres.on_node(node, make_url(database).database))
    with ExitStack() as stack:
        everyone = stack.enter_context(Store.open(database))

        def sql(statement: str) -> list[Any]:
            return everyone._database.single(lambda tx: tx.connection.execute(statement).fetchall())

        lab = SimpleNamespace(sql=sql, url=there)
        attack(Stores(everyone, owned(stack, there, "acme"), owned(stack, there, "mallory"), lab))


def test_shard_itself_shows_a_role_nothing_of_others(postgres, database, login):
    secure(database)
    with ExitStack() as stack:
        there = login.url(database)
        everyone = stack.enter_context(Store.open(database))
        acme, mallory = owned(stack, there, "acme"), owned(stack, there, "mallory")
        theirs(Stores(everyone, acme, mallory, SimpleNamespace(url=there)))
    seen = 0
    for table in TABLES:
        for place, shard, _ in sql_of(database, ON_SHARDS, table):
            node = [f"{host}:{port}" for host, port in postgres.nodes].index(place)
            direct = login.url(postgres.on_node(node, make_url(database).database))
            count = f"SELECT count(*) FROM {table}_{shard}"
            with psycopg.connect(direct) as connection:
                connection.execute("SET citus.override_table_visibility = off")
                assert connection.execute(count).fetchone() == (0,)
                connection.execute("SET LOCAL roocontext.owner = 'mallory'")
                assert connection.execute(count).fetchone() == (0,)
                connection.execute("SET LOCAL roocontext.owner = 'acme'")
                if table == "entries":
                    seen += connection.execute(count).fetchone()[0]
    assert seen > 0


def test_policies_are_on_every_shard_and_move_with_it(postgres, database, login):
    secure(database)
    with ExitStack() as stack:
        there = login.url(database)
        acme, mallory = owned(stack, there, "acme"), owned(stack, there, "mallory")
        acme.create(ID).append("user", "hello")
        check_shards(database)
        (place, shard, _), *_ = sql_of(database, ON_SHARDS, "sessions")
        host, port = place.split(":")
        other = next(node for node in postgres.nodes[1:] if node[1] != int(port))
        with psycopg.connect(database, autocommit=True) as connection:
            move = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'block_writes')"
            connection.execute(move, [shard, host, int(port), *other])
        check_shards(database)
        assert [info.session_id for info in acme.sessions()] == [ID]
        assert acme.session(ID).verify().ok
        assert mallory.sessions() == []


def test_store_that_is_secured_is_distributed_with_its_policies(one_server):
    secure(one_server)
    with Store.open(one_server, owner="acme") as acme:
        acme.create(ID).append("user", "hello")
    assert distribute(one_server).rows["sessions"] == 1
    check_shards(one_server)
    with Store.open(one_server, owner="acme") as acme:
        assert acme.session(ID).verify().ok


def test_role_that_policies_hide_rows_from_cannot_distribute_the_store(one_server, sql):
    with Store.open(one_server, owner="acme") as acme:
        acme.create(ID).append("user", "hello")
    secure(one_server)
    role = Login(one_server)
    tables = [*TABLES, "roocontext_version", "messages", "effective_history"]
    try:
        sql(one_server, *(f"ALTER TABLE {table} OWNER TO {role.name}" for table in tables))
        with pytest.raises(InvalidOption, match="the sessions of one owner only"):
            distribute(role.url(one_server))
    finally:
        sql(one_server, *(f"ALTER TABLE {table} OWNER TO CURRENT_USER" for table in tables))
        role.drop()
    assert sql(one_server, "SELECT count(*) FROM ONLY sessions") == [(1,)]


def sql_of(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement, values).fetchall()


def check_shards(url: str) -> None:
    """Each shard of each table has policies, which are enabled and forced."""
    for table in TABLES:
        found = [result for _, _, result in sql_of(url, ON_SHARDS, table)]
        assert found
        assert set(found) == {"t"}, table

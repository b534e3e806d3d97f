"""Row-level security: the server shows a role that owns nothing the sessions of one owner only."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import make_url

from conformance.sessions.test_owners import ID, Stores, attack, theirs
from roocontext import Store
from roocontext.errors import InvalidOption, SessionNotFound, StoreReadOnly, StoreUnavailable
from roocontext.store.engine.roles import grants, secure
from roocontext.store.engine.schema import ERASURES
from support.damage import SECRET
from support.server_role import Role

TABLES = ["sessions", *(erasure.table.name for erasure in ERASURES)]


class Secured(NamedTuple):
    """A database that is secured, and a role that owns nothing."""

    url: str
    role: Role

    def open(self, owner: str | None, **options: Any) -> Store:
        return Store.open(self.role.url, owner=owner, upgrade=False, **options)


@pytest.fixture
def secured(postgres_url: str) -> Iterator[Secured]:
    role = Role(postgres_url)
    role.may(*grants("agent"))
    secure(postgres_url)
    yield Secured(postgres_url, role)
    role.drop()


@pytest.fixture
def stores(secured: Secured) -> Iterator[Stores]:
    with ExitStack() as stack:
        everyone = stack.enter_context(Store.open(secured.url))

        def sql(statement: str) -> list[Any]:
            return everyone._database.single(lambda tx: tx.connection.execute(statement).fetchall())

        lab = SimpleNamespace(sql=sql, url=secured.role.url)
        owned = [stack.enter_context(secured.open(name)) for name in ("acme", "mallory")]
        yield Stores(everyone, *owned, lab)


@pytest.mark.parametrize("archived", [False, True])
def test_calls_with_another_owners_id_are_as_if_there_were_no_session(stores, *, archived):
    attack(stores, archived=archived)


def test_no_plain_statement_reaches_another_owners_row(secured, stores):
    theirs(stores)
    stores.mallory.create("mine").append("user", "hello")
    stores.mallory.index()
    for table in [*TABLES, "messages", "effective_history"]:
        count = f"SELECT count(*) FROM {table}"
        foreign = f"{count} WHERE session_id LIKE 'sess-acme%'"
        assert secured.role.asked(count) == (0,)
        assert secured.role.asked(foreign, owner="mallory") == (0,)
        if table in ("sessions", "entries", "spans", "search_rows", "messages"):
            assert secured.role.asked(foreign, owner="acme") > (0,)
    for change in (
        "UPDATE sessions SET title = 'mine' RETURNING session_id",
        "DELETE FROM spans WHERE session_id LIKE 'sess-acme%' RETURNING lo",
        "DELETE FROM search_rows WHERE session_id LIKE 'sess-acme%' RETURNING seq",
    ):
        assert secured.role.asked(change, owner="nobody") is None
    stolen = '{"session_id": "stolen", "owner": "acme"}'
    for insert in (
        f"INSERT INTO sessions SELECT (jsonb_populate_record(s, '{stolen}')).* FROM sessions s",
        f"INSERT INTO search_marks VALUES ('{ID}', 0)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            secured.role.asked(insert, owner="mallory")


def test_statements_of_the_store_need_the_policies_alone(secured, stores):
    """Whatever condition a statement lacks, the server adds."""
    theirs(stores)
    forgetful = stores.mallory._database
    forgetful._scope.shape = type(forgetful._scope.shape)(has_owner=False, facts=0)
    assert stores.mallory.sessions() == []
    assert stores.mallory.search(SECRET) == []
    with pytest.raises(SessionNotFound):
        stores.mallory.session(ID)


def test_store_without_an_owner_is_refused(secured):
    with pytest.raises(InvalidOption) as refused, secured.open(None):
        pass
    assert refused.value.facts["name"] == "owner"


def test_administrator_sees_all(secured):
    secure(secured.url, administrator=secured.role.name)
    with secured.open("acme") as acme, secured.open(None) as everyone:
        acme.create("one").append("user", "hello")
        assert [info.owner for info in everyone.sessions()] == ["acme"]
        assert everyone.session("one").verify().ok
    for name in ("public", "no such role"):
        with pytest.raises(InvalidOption, match=f"no role '{name}'"):
            secure(secured.url, administrator=name)
    secure(secured.url)
    with pytest.raises(InvalidOption), secured.open(None):
        pass


def test_nobody_waits_behind_a_database_that_is_to_be_secured_during_a_dump(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roocontext.store.engine.migrate._LOCK_TIMEOUT", "10ms")
    with ThreadPoolExecutor(1) as threads, psycopg.connect(secured.url) as dump:
        dump.execute("SELECT count(*) FROM entries")
        with pytest.raises(StoreUnavailable, match="tried 8 times"):
            threads.submit(secure, secured.url).result(30)


@pytest.fixture
def is_cluster(request: pytest.FixtureRequest) -> bool:
    """On a cluster no search calls the function, which would run on one node."""
    return bool(request.config.getoption("--distributed"))


def test_search_needs_the_right_to_execute_its_function(secured, is_cluster):
    secured.role.may("REVOKE EXECUTE ON FUNCTION roocontext_matches_v1(tsquery) FROM agent")
    with secured.open("acme") as acme:
        if is_cluster:
            assert acme.search("hello") == []
        else:
            with pytest.raises(StoreReadOnly):
                acme.search("hello")


FILL = """
    INSERT INTO search_rows (session_id, seq, happened_at, recorded_at, terms)
    SELECT 'big', n + 9, n, n, CASE WHEN n % 1000 = 7 THEN 'hello' ELSE 'word' || n END::tsvector
    FROM generate_series(1, 5000) AS n
"""


def test_search_uses_the_index(secured, is_cluster):
    """The owner of the tables is subject to policies too, and reads the index all the same."""
    role = secured.role
    for table in (*TABLES, "messages", "effective_history"):
        role.may(f"ALTER TABLE {table} OWNER TO agent")
    role.may("ALTER FUNCTION roocontext_matches_v1(tsquery) OWNER TO agent")
    # On a cluster it would have to own a function that only the other role may replace.
    secure(secured.url if is_cluster else role.url)
    with secured.open("acme") as acme:
        acme.create("big")
    role.may(FILL, "ANALYZE search_rows")
    if is_cluster:
        found = "SELECT count(*) FROM search_rows WHERE terms @@ 'hello'"
        assert role.asked(found, owner="acme") == (5,)
        assert role.asked(found, owner="other") == (0,)
        return
    body, _ = role.asked(
        "SELECT prosrc, set_config('roocontext.owner', 'acme', true) FROM pg_proc"
        " WHERE proname = 'roocontext_matches_v1'"
    )
    plan = role.asked(
        f"EXPLAIN (FORMAT JSON) {body}".replace("words", "'hello'::tsquery"), owner="acme"
    )
    assert "search_rows_terms" in str(plan)
    assert role.asked("SELECT count(*) FROM roocontext_matches_v1('hello')", owner="acme") == (5,)
    assert role.asked("SELECT count(*) FROM roocontext_matches_v1('hello')", owner="other") == (0,)


def test_every_table_with_a_session_is_secured(secured):
    with psycopg.connect(secured.url.replace("+psycopg", "")) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " WHERE relkind = 'r' AND attname = 'session_id' AND relrowsecurity"
            " AND relforcerowsecurity AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        assert sorted(name for (name,) in rows) == sorted(TABLES)


def test_only_the_schema_of_the_store_is_secured_whatever_its_name(postgres_url):
    names = ["agents", "Agents", "my agents"]
    plain = make_url(postgres_url).set(drivername="postgresql")
    with psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True) as owner:
        for name in names:
            owner.execute(f'CREATE SCHEMA "{name}"')
            options = f'-c search_path="{name}"'.replace('"my ', '"my\\ ')
            url = plain.update_query_dict({"options": options})
            Store.open(url).close()
            if name != "agents":
                secure(url)
        secured = owner.execute(
            "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_policy JOIN pg_class"
            " ON pg_class.oid = polrelid ORDER BY 1"
        )
        assert [row[0] for row in secured] == ['"Agents"', '"my agents"']
        for name in names:
            owner.execute(f'DROP SCHEMA "{name}" CASCADE')


def test_dry_run_changes_nothing(postgres_url):
    planned = secure(postgres_url, dry_run=True)
    assert planned.dry_run
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT count(*) FROM pg_policy").fetchone() == (0,)
        for step in planned.steps:
            connection.execute(step)
    assert secure(postgres_url).steps == planned.steps


def test_file_is_refused(tmp_path):
    Store.open(tmp_path / "store.db").close()
    with pytest.raises(InvalidOption):
        secure(tmp_path / "store.db")

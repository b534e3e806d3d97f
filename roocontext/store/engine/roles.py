"""Roles of a server: the rights that one needs which does not own the tables, and what it sees.

With row-level security the server itself shows a transaction the sessions of one owner only. The
owner is a setting of the transaction, which a store with an owner makes. The policies are made in
one transaction, which may be run again: a failure leaves the database as it was.
"""

import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import URL, Connection
from sqlalchemy import text as sql

from roocontext.errors import InvalidOption
from roocontext.log.encoding import check_id
from roocontext.store.engine import migrate
from roocontext.store.engine.cluster import distributed_tables
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import EngineOptions, engine_of
from roocontext.store.engine.schema import ADMINISTRATOR, ERASURES, OWNER_POLICY, sessions
from roocontext.store.engine.statements import StoreScope

_MATCHES = "roocontext_matches"
_VIEWS = ("messages", "effective_history")
# A query of a shard may not ask a distributed table. So this looks into the shard of `sessions`
# that has the session, which is on the same node. It keeps its last answer for the transaction,
# because most statements are about one session.
_OWNED = """CREATE OR REPLACE FUNCTION {function}(session text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS $$
DECLARE
    owner text := current_setting('roocontext.owner', true);
    question text := format('%L %L %L', current_user, owner, session);
    is_owned boolean;
BEGIN
    IF current_setting('roocontext.owned', true) = question THEN
        RETURN true;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM {schema}.sessions_%s WHERE session_id = $1)',
        get_shard_id_for_distribution_column('{schema}.sessions', session)
    ) INTO is_owned USING session;
    IF is_owned THEN
        PERFORM set_config('roocontext.owned', question, true);
    END IF;
    RETURN is_owned;
END
$$"""
_POLICIES = (
    "SELECT polname, polroles[1]::regrole::text FROM pg_policy JOIN pg_class"
    " ON pg_class.oid = polrelid AND relnamespace = quote_ident(current_schema())::regnamespace"
    " WHERE relname = :table"
)
_OLDEST = 150_000
"""Views check the rights of the role that asks, and not their owner's, since PostgreSQL 15."""


class Right(NamedTuple):
    """Rights on some tables. Only `redact` and `purge` need one that `erases`."""

    what: str
    tables: str
    erases: bool = False


RIGHTS: Final = (
    Right("SELECT, INSERT", "entries"),
    Right("SELECT, INSERT, UPDATE", "sessions"),
    Right("SELECT, INSERT, DELETE", "spans, clearings, facts"),
    Right("SELECT, INSERT", "counts"),
    Right("SELECT, INSERT, DELETE", "search_rows"),
    Right("SELECT, INSERT, UPDATE, DELETE", "search_marks, turns"),
    Right("SELECT", "roocontext_version, messages, effective_history"),
    Right("EXECUTE", "FUNCTION roocontext_matches_v1(tsquery)"),
    Right("UPDATE (content, salt, extra), DELETE", "entries", erases=True),
    Right("DELETE", "counts", erases=True),
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def grants(role: str, *, erase: bool = True) -> list[str]:
    """The statements that give a role the rights of every call, or of all but the erasures."""
    name = quoted_role(role)
    return [
        f"GRANT {right.what} ON {right.tables} TO {name};"
        for right in RIGHTS
        if erase or not right.erases
    ]


def quoted_role(role: str) -> str:
    """A role as SQL names it."""
    from sqlalchemy.dialects.postgresql.base import RESERVED_WORDS  # noqa: PLC0415 - rarely needed

    check_id("role", role)
    is_plain = _PLAIN.fullmatch(role) and role not in RESERVED_WORDS
    return role if is_plain else '"' + role.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class SecuritySteps:
    """The statements that secure a database. They were run, unless `dry_run` is set."""

    steps: tuple[str, ...]
    dry_run: bool


def secure(
    url: str | Path | URL, *, administrator: str | None = None, dry_run: bool = False
) -> SecuritySteps:
    """Let the database show each role only the sessions of the owner that its transaction names.

    Superusers and roles with BYPASSRLS see all of them. So does the role `administrator`. It can
    be repeated, and then replaces the policies.
    """
    engine = engine_of(url, EngineOptions(read_only=dry_run))
    if engine.server is None:
        raise InvalidOption("An SQLite file has no row-level security.", name="url")
    # No row is read, so a role that sees one owner only may secure its tables again.
    with closing(Database(engine, scope=StoreScope("nobody"))) as database:
        if dry_run:
            return SecuritySteps(
                database.inspect(lambda connection: _steps(connection, administrator)), dry_run=True
            )
        return database.migrate(lambda connection: _secured(connection, administrator))


def _secured(connection: Connection, administrator: str | None) -> SecuritySteps:
    migrate.wait_for_others(connection)
    steps = _steps(connection, administrator)
    migrate.take_tables(connection)
    for step in steps:
        connection.exec_driver_sql(step, execution_options={"no_parameters": True})
    return SecuritySteps(steps, dry_run=False)


def secured_again(
    connection: Connection, tables: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The statements that take the policies from tables, and those that secure a cluster like it.

    There are none if the database is not secured.
    """
    rows = connection.execute(sql(_POLICIES), {"table": sessions.name})
    policies: dict[str, str] = {name: role for name, role in rows}  # noqa: C416 - rows are no pairs
    if OWNER_POLICY not in policies:
        return (), ()
    taken = [
        statement
        for table in tables
        for statement in (
            *(_dropped(table, name) for name in (OWNER_POLICY, ADMINISTRATOR, _MATCHES)),
            f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
        )
    ]
    return tuple(taken), (*_on_shards(connection, policies.get(ADMINISTRATOR)), *_enabled())


def _steps(connection: Connection, administrator: str | None) -> tuple[str, ...]:
    migrate.check_is_wanted(connection)
    if int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) < _OLDEST:
        raise InvalidOption("Row-level security needs PostgreSQL 15 or newer.", name="url")
    role = None if administrator is None else quoted_role(administrator)
    # None has the name `public`: to PostgreSQL, however it is quoted, that is every role.
    if (
        role
        and connection.execute(sql("SELECT to_regrole(:role)"), {"role": role}).scalar() is None
    ):
        raise InvalidOption(f"There is no role {administrator!r}.", name="administrator")
    is_distributed = sessions.name in distributed_tables(connection)
    policies = (_on_shards if is_distributed else _on_one_server)(connection, role)
    return (*policies, *_enabled())


def _on_one_server(connection: Connection, administrator: str | None) -> list[str]:
    # Once for each statement, and not for each row.
    named = "(SELECT current_setting('roocontext.owner', true))"
    # The policies of `sessions` hold in it too.
    own = "EXISTS (SELECT 1 FROM sessions AS own WHERE own.session_id = {}.session_id)"
    steps = _policies(administrator, f"owner = {named}", own)
    reader = connection.exec_driver_sql(
        "SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'roocontext_matches_v1'"
        " AND pronamespace = quote_ident(current_schema())::regnamespace"
    ).scalar()
    if reader is not None:
        # The function that searches the index reads it with the rights of this role.
        steps += _policy("search_rows", _MATCHES, "true", to=reader, command="SELECT")
    return steps


def _on_shards(connection: Connection, administrator: str | None) -> list[str]:
    """On a cluster, where no policy has a subquery, and no search calls a function."""
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    function = f"{schema}.roocontext_owned_v1"
    return [
        "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
        _OWNED.format(function=function, schema=schema),
        f"SELECT create_distributed_function('{function}(text)')",
        # A plain comparison would be merged with that of a statement, and Citus refuses joins with
        # what then remains.
        *_policies(
            administrator,
            "owner = ANY (ARRAY[current_setting('roocontext.owner', true)])",
            f"{function}(session_id)",
        ),
    ]


def _policies(administrator: str | None, owned: str, has_session: str) -> list[str]:
    """Those of `sessions`, and of each other table, whose name stands for braces."""
    steps = _policy(sessions.name, OWNER_POLICY, owned)
    if administrator is None:
        steps.append(_dropped(sessions.name, ADMINISTRATOR))
    else:
        steps += _policy(sessions.name, ADMINISTRATOR, "true", to=administrator)
    for erasure in ERASURES:
        table = erasure.table.name
        steps += _policy(table, OWNER_POLICY, has_session.format(table))
    return steps


def _enabled() -> list[str]:
    steps = []
    for table in (sessions.name, *(erasure.table.name for erasure in ERASURES)):
        steps.append(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        steps.append(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    return [*steps, *(f"ALTER VIEW {view} SET (security_invoker = true)" for view in _VIEWS)]


def _policy(
    table: str, name: str, condition: str, *, to: str = "PUBLIC", command: str = "ALL"
) -> list[str]:
    made = f"CREATE POLICY {name} ON {table} FOR {command} TO {to} USING ({condition})"
    return [_dropped(table, name), made]


def _dropped(table: str, name: str) -> str:
    return f"DROP POLICY IF EXISTS {name} ON {table}"

"""The plans of a store with an owner: it reads its own sessions, however many others there are."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from roocontext import Store
from support.query_plans import Catcher, explain, fill_postgres, fill_sqlite, nodes

OWNER = "'o' || ((n - 1) / 20)"
"""Each of 75 owners has twenty sessions, and the first one the long one too."""
OTHERS = (
    "UPDATE sessions SET unindexed = TRUE WHERE owner <> 'o0'",
    "UPDATE sessions SET archived_at = 1, archive = '{}' WHERE owner > 'o4'",
)
"""Those of others are not indexed, and many of them are archived."""
MOMENT = datetime.fromtimestamp(0, UTC)

OPERATIONS: dict[str, Callable[[Store], Any]] = {
    "list": lambda store: store.sessions(limit=5),
    "next list": lambda store: store.sessions(after=store.sessions(limit=5).next),
    "list by recording": lambda store: store.sessions(recorded=True),
    "list since": lambda store: store.sessions(since=MOMENT, until=MOMENT + timedelta(days=1)),
    "list by metadata": lambda store: store.sessions(where={"user": "u7"}),
    "overview": lambda store: store.overview(limit=20),
    "find": lambda store: store.find("s1"),
    "changes": lambda store: read(store, None),
    "changes after": lambda store: read(store, store.change_cursor()),
    "changes of one": lambda store: read(store, None, "s7"),
    "usage": lambda store: store.usage(),
    "usage by day": lambda store: store.usage(since=MOMENT, by="day"),
    "usage where": lambda store: store.usage(where={"user": "u7"}),
    "usage of a family": lambda store: store.session("s7").usage(family=True),
    "search": lambda store: store.search("hello"),
    "search in one": lambda store: store.search("hello", session="s7"),
    "search in a family": lambda store: store.search("hello", family="s7"),
    "search where": lambda store: store.search("hello", where={"user": "u7"}),
    "index": lambda store: store.index(),
    "purged": lambda store: store.purged(),
    "purge": lambda store: store.purge(older_than=MOMENT, dry_run=True),
    "purge where": lambda store: store.purge(where={"user": "u7"}, dry_run=True),
    "session": lambda store: store.session("s7").view(),
}


def read(store: Store, after: str | None, session: str | None = None) -> Any:
    with store.changes(after, session=session) as feed:
        return feed.read(timeout=0)


def work(url: Any, catcher: Catcher) -> None:
    with Store.open(url, owner="o0", durability="normal") as store:
        for name, operation in OPERATIONS.items():
            catcher.operation = name
            operation(store)
        catcher.operation = None
    assert {caught.operation for caught in catcher.caught} == {*OPERATIONS}


def test_sqlite_reads_the_sessions_of_the_owner_by_an_index(tmp_path):
    path, catcher = tmp_path / "store.db", Catcher()
    Store.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        fill_sqlite(connection.execute, OWNER)
        for statement in OTHERS:
            connection.execute(statement)
        with pytest.MonkeyPatch.context() as patch:
            catcher.watch_sqlite(patch)
            work(path, catcher)
        for statistics in ("SELECT 1", "ANALYZE"):
            connection.execute(statistics)
            for operation, text, params in catcher.caught:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {text}", params)
                plan = [row[3] for row in rows]
                for step in plan:
                    facts = (statistics, operation, text, plan)
                    assert not re.match(r"SCAN (sessions|entries|spans|counts|fact)", step), facts
                    if found := re.match(r"SEARCH sessions USING .*INDEX \w+ \((.*)\)", step):
                        # The newest minute of all sessions is the clock of the change feed.
                        conditions = r"owner=\?|session_id=\?|parent=\?|changed_minute<\?$"
                        assert re.search(conditions, found[1]), facts


def test_postgres_reads_the_sessions_of_the_owner_by_an_index(postgres):
    url, catcher = postgres.fresh(), Catcher()
    with psycopg.connect(url, autocommit=True) as admin:
        fill_postgres(admin.execute, OWNER)
        for statement in OTHERS:
            admin.execute(statement)
        admin.execute("VACUUM ANALYZE")
        with pytest.MonkeyPatch.context() as patch:
            catcher.watch_postgres(patch)
            work(url, catcher)
        caught = {one.text: one for one in catcher.caught}.values()
        for mode in ("force_custom_plan", "force_generic_plan"):
            admin.execute(f"SET plan_cache_mode = {mode}")
            for operation, text, params in caught:
                plan = explain(admin, text, params)
                facts = (mode, operation, text, plan)
                for node in nodes(plan):
                    if node.get("Relation Name") in ("sessions", "entries", "facts", "counts"):
                        assert node["Node Type"] != "Seq Scan", facts
                    if node.get("Relation Name") == "sessions":
                        found = node.get("Index Cond", "") + node.get("Recheck Cond", "")
                        key = r"owner = |session_id = |parent = |first_hash = "
                        assert re.search(key, found), facts
    postgres.drop(url)

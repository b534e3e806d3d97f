"""The Citus cluster that `make test-distributed` runs on, with the interface of `Postgres`.

Each store is distributed. A fresh database takes a copy on every node, which is slow: so one that a
test has left as it was made is emptied and used again.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from roocontext import Store
from roocontext.store.engine.citus import distribute
from roocontext.store.engine.schema import metadata

GIVEN = "ROOCONTEXT_TEST_CITUS_URL"
KIT = "ROOCONTEXT_CITUS_KIT"
SHARDS = 2
"""One on each worker: for a second one, a connection to the coordinator opens another."""
UNSAFE = "SET citus.enable_unsafe_triggers = on"
"""A cluster changes no trigger without it. A plain server takes any setting of this form."""
_HANG_UP = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"

# The whole schema, so that a test that changed it leaves no trace in the next one. Rights that were
# given and taken back are as good as new.
_SCHEMA = """
SELECT (SELECT string_agg(concat(relname, coalesce(relacl, acldefault('r', relowner)),
            relrowsecurity), ',' ORDER BY relname)
        FROM pg_class WHERE relnamespace = 'public'::regnamespace),
    (SELECT string_agg(concat(attrelid::regclass, attname, atttypid, attnotnull,
            nullif(attacl, '{}')), ',' ORDER BY attrelid::regclass::text, attnum)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND attnum > 0),
    (SELECT string_agg(concat(polrelid::regclass, polname), ',' ORDER BY polrelid, polname)
        FROM pg_policy),
    (SELECT string_agg(concat(tgname, tgenabled), ',' ORDER BY tgname) FROM pg_trigger
        WHERE NOT tgisinternal),
    (SELECT string_agg(conname, ',' ORDER BY conname) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace),
    (SELECT string_agg(concat(proname, coalesce(proacl, acldefault('f', proowner))), ','
            ORDER BY proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
    (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase =
        (SELECT oid FROM pg_database WHERE datname = current_database())),
    (SELECT string_agg(roocontext_version::text, ',') FROM roocontext_version)
"""


class Citus:
    """A cluster to make databases in."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url).set(drivername="postgresql")
        self._prefix = f"roocontext_{uuid4().hex[:8]}"
        self._numbers = count(1)
        self._made: list[str] = []
        self._emptied: list[str] = []
        with psycopg.connect(url) as coordinator:
            self.nodes = coordinator.execute(
                "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary'"
                " ORDER BY groupid"
            ).fetchall()
        self._admins = [
            psycopg.connect(self.on_node(node, self._url.database), autocommit=True)
            for node in range(len(self.nodes))
        ]
        self._one_server = self._cluster()
        self._close(self._one_server)
        self._distributed = self._copy(self._one_server)
        distribute(self._named(self._distributed), shards=SHARDS)
        with psycopg.connect(self._named(self._distributed)) as connection:
            self._schema = connection.execute(_SCHEMA).fetchone()
        self._close(self._distributed)

    def on_node(self, node: int, database: str | None) -> str:
        """The URL of a database on one node; the first is the coordinator."""
        host, port = self.nodes[node]
        named = self._url.set(host=host, port=port, database=database)
        return named.render_as_string(hide_password=False)

    def empty(self, options: str = "") -> str:
        """The URL of a new database without any table, on the coordinator alone."""
        name = self._name()
        self._admins[0].execute(f"CREATE DATABASE {name} {options}")
        return self._named(name)

    def undistributed(self) -> str:
        """The URL of a new database with a store that is on the coordinator alone."""
        return self._named(self._copy(self._one_server))

    def fresh(self) -> str:
        """The URL of a database that holds an empty distributed store."""
        if self._emptied:
            return self._named(self._emptied.pop())
        return self._named(self._copy(self._distributed))

    def drop(self, url: str, *, again: bool = True) -> None:
        """Take back a database that was made here, whoever is still connected.

        It is used `again` if its schema on the coordinator is what it was.
        """
        name = make_url(url).database
        assert name is not None
        assert name.startswith(self._prefix)
        with suppress(psycopg.Error):
            if again and self._empty_again(url):
                self._emptied.append(name)
                return
        self._drop(name)

    def close(self) -> None:
        for name in reversed(self._made):
            with suppress(psycopg.Error):
                self._drop(name)
        for admin in self._admins:
            admin.close()

    def _empty_again(self, url: str) -> bool:
        """Delete every row, if the schema is what it was."""
        with psycopg.connect(url) as connection:
            if connection.execute(_SCHEMA).fetchone() != self._schema:
                return False
            # Past the guards, on the nodes too.
            connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
            connection.execute("SET LOCAL session_replication_role = 'replica'")
            for table in metadata.tables:
                connection.execute(f"DELETE FROM {table}")
        return True

    def _cluster(self) -> str:
        """A new database with a store on the coordinator of its cluster."""
        name = self._name()
        self._everywhere(f"CREATE DATABASE {name}")
        for node in range(len(self.nodes)):
            with psycopg.connect(self.on_node(node, name), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        with psycopg.connect(self._named(name), autocommit=True) as connection:
            coordinator, *workers = self.nodes
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", coordinator)
            # It also sends the roles, which two databases must not do at the same time.
            self._admins[0].execute("SELECT pg_advisory_lock(1)")
            for worker in workers:
                connection.execute("SELECT citus_add_node(%s, %s)", worker)
            self._admins[0].execute("SELECT pg_advisory_unlock(1)")
        Store.open(self._named(name)).close()
        return name

    def _close(self, name: str) -> None:
        """Let a database be copied, which takes that nobody is connected."""
        self._everywhere(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        self._hang_up(name)

    def _copy(self, template: str) -> str:
        name = self._name()
        self._everywhere(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def _drop(self, name: str) -> None:
        self._hang_up(name)
        self._everywhere(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.remove(name)

    def _hang_up(self, name: str) -> None:
        """End all connections, those of Citus's own daemon too."""
        for admin in self._admins:
            while admin.execute(_HANG_UP, [name]).fetchall():
                time.sleep(0.001)

    def _everywhere(self, command: str) -> None:
        for admin in self._admins:
            admin.execute(command)

    def _name(self) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._made.append(name)
        return name

    def _named(self, database: str) -> str:
        return self._url.set(database=database).render_as_string(hide_password=False)


@contextmanager
def running() -> Iterator[Citus]:
    cluster = Citus(os.environ[GIVEN])
    try:
        yield cluster
    finally:
        cluster.close()


class OwnCluster:
    """A cluster that the kit started, whose nodes a test may kill and add."""

    def __init__(self, folder: Path) -> None:
        self._kit, self._folder = Path(os.environ[KIT]), folder
        self.url = ""

    def start(self, workers: int = 2) -> None:
        """Start what does not run, and add workers up to this number."""
        command = [str(self._kit / "start"), "--dir", str(self._folder), "--workers", str(workers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        self.url = done.stdout.splitlines()[-1]

    def stop(self) -> None:
        command = [str(self._kit / "stop"), "--dir", str(self._folder), "--remove"]
        subprocess.run(command, check=True)

    def kill(self, node: str) -> None:
        """Kill a server such as `worker1`. Its children notice, and end."""
        file = self._folder / node / "postmaster.pid"
        os.kill(int(file.read_text().splitlines()[0]), signal.SIGKILL)

    def port(self, node: str) -> int:
        return int((self._folder / f"{node}.port").read_text())


@contextmanager
def started() -> Iterator[OwnCluster]:
    with tempfile.TemporaryDirectory(prefix="roocontext-citus-") as folder:
        Path(folder).chmod(0o755)  # root's servers run as another user
        cluster = OwnCluster(Path(folder) / "kit")
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()

"""What SQLite was asked for while somebody read: how many queries, of which tables."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


class Seen:
    """The queries that ran, and the tables whose columns they read."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.queries = 0
        self.tables: set[str] = set()

    def watch(self, connection: sqlite3.Connection) -> None:
        """Look at what a connection does."""
        connection.set_trace_callback(self._query)
        connection.set_authorizer(self._read)

    def _query(self, sql: str) -> None:
        self.queries += sql.lstrip().upper().startswith("SELECT")

    def _read(self, action: int, table: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and table:
            self.tables.add(table)
        return sqlite3.SQLITE_OK


@contextmanager
def reading() -> Iterator[Seen]:
    """Watch every connection that is made in this block."""
    seen = Seen()
    connect = sqlite3.connect

    def watched(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        seen.watch(connection)
        return connection

    with mock.patch.object(sqlite3, "connect", watched):
        yield seen

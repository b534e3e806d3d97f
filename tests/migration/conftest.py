"""Plain SQL without the library: anyone with a client can read, and may not change, the log."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

Rows = list[tuple[Any, ...]]


@dataclass
class Raw:
    """A database, and a way past the library into it: no pragma is set, each statement commits."""

    engine: str
    url: str
    run: Callable[..., Rows]

    def refuses(self, statement: str) -> str:
        """Run a statement that has to fail; what the database replied."""
        with pytest.raises((sqlite3.Error, psycopg.Error)) as refused:
            self.run(statement)
        return str(refused.value)


@pytest.fixture(params=["file", "postgres"])
def raw(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Raw]:
    """A database without any table."""
    with raw_database(request, tmp_path) as made:
        yield made


@pytest.fixture(scope="module", params=["file", "postgres"])
def shared_raw(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Raw]:
    """A database for the tests of a module that leave it as it was."""
    with raw_database(request, tmp_path_factory.mktemp("shared")) as made:
        yield made


@contextmanager
def raw_database(request: pytest.FixtureRequest, folder: Path) -> Iterator[Raw]:
    """A database without any table, on the engine that the fixture was asked for."""
    if request.param == "file":
        path = folder / "raw.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield Raw("file", str(path), lambda sql: connection.execute(sql).fetchall())
        return
    server = request.getfixturevalue("postgres")
    url = server.empty()
    with psycopg.connect(url, autocommit=True) as connection:

        def run(sql: str) -> Rows:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield Raw("postgres", url, run)
    server.drop(url)

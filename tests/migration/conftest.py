"""Plain SQL without the library: anyone with a client can read, and may not change, the log."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.empty_files import empty_file

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


@pytest.fixture(params=["file", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Raw]:
    """A database that holds an empty store."""
    with raw_database(request, tmp_path, migrated=True) as made:
        yield made


@pytest.fixture(scope="module", params=["file", "postgres"])
def shared_stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Raw]:
    """The same for the tests of a module that leave it as it was."""
    with raw_database(request, tmp_path_factory.mktemp("shared"), migrated=True) as made:
        yield made


@contextmanager
def raw_database(
    request: pytest.FixtureRequest, folder: Path, *, migrated: bool = False
) -> Iterator[Raw]:
    """A database on the engine that the fixture was asked for: empty, or with an empty store."""
    if request.param == "file":
        path = folder / "raw.db"
        if migrated:
            empty_file(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield Raw("file", str(path), lambda sql: connection.execute(sql).fetchall())
        return
    server = request.getfixturevalue("postgres")
    url = server.fresh() if migrated else server.empty()
    with psycopg.connect(url, autocommit=True) as connection:

        def run(sql: str) -> Rows:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield Raw("postgres", url, run)
    server.drop(url)

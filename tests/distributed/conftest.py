"""Stores on the nodes of a Citus cluster. `make test-distributed` runs them."""

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from support.citus_server import KIT, Citus
from support.cli_process import CommandLine, CommandLines, preloaded

# Nobody kills the nodes of a cluster that was given by its URL.
collect_ignore = [] if os.environ.get(KIT) else ["test_faults.py"]


@pytest.fixture
def one_server(postgres: Citus) -> Iterator[str]:
    """The URL of a store on the coordinator of a cluster, not distributed yet."""
    url = postgres.undistributed()
    yield url
    postgres.drop(url)


@pytest.fixture
def sql() -> Callable[..., list[Any]]:
    """Runs plain SQL in a transaction on a database: `sql(url, statement, ...)`."""

    def run(url: str, *statements: str) -> list[Any]:
        with psycopg.connect(url) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture(scope="session")
def preloaded_process() -> Iterator["subprocess.Popen[str]"]:
    """What the commands are forked from."""
    with preloaded() as process:
        yield process


@pytest.fixture
def command_line(
    preloaded_process: "subprocess.Popen[str]", tmp_path_factory: pytest.TempPathFactory
) -> CommandLines:
    """Makes a command line in a folder of its own: `command_line(url)`."""
    return lambda url: CommandLine(preloaded_process, tmp_path_factory.mktemp("commands"), url)

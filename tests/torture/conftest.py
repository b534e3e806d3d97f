"""Fixtures for the tests of faults and of many processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.empty_files import empty_file
from support.pgbouncer import bouncers, pooled
from torture.processes import Nursery, nursery


@pytest.fixture(scope="session", name="nursery")
def running_nursery() -> Iterator[Nursery]:
    """Runs jobs in processes of their own."""
    with nursery() as running:
        yield running


@pytest.fixture(params=["file", "postgres", *bouncers()])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that several processes can open, also through a pooler."""
    if request.param == "file":
        yield empty_file(tmp_path / "store.db")
    elif request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        there = request.getfixturevalue("postgres_url")
        with pooled(request.param, there, connections=8) as url:
            yield url


@pytest.fixture(params=["file", "memory", "postgres"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in a file, in memory, or on a server."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        yield str(tmp_path / "store.db") if request.param == "file" else ":memory:"


@pytest.fixture(params=["file", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that nobody has opened yet."""
    if request.param == "file":
        return str(tmp_path / "new.db")
    return str(request.getfixturevalue("server_url"))

"""Stores of ours for the tests of a framework: each closed after the test that opened it.

A store is a file, or a PostgreSQL database if ROOCONTEXT_FRAMEWORKS_ENGINE says so.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

from roocontext import Store
from support import postgres_server
from support.empty_files import empty_file

Result = TypeVar("Result")

POSTGRES = os.environ.get("ROOCONTEXT_FRAMEWORKS_ENGINE") == "postgres"
_forever = ExitStack()
_numbers = count()
_of_test: list[ExitStack] = []
_named: dict[str, Store] = {}


def new_store() -> Store:
    """A store of its own."""
    if POSTGRES:
        url = _server().fresh()
        _scope().callback(_server().drop, url)
    else:
        url = empty_file(_folder() / f"{next(_numbers)}.db")
    return _opened(url)


def store_at(place: object) -> Store:
    """The store of a place as the framework names it: `:memory:` is a new store each time."""
    name = str(place)
    if name == ":memory:":
        return new_store()
    if name not in _named:
        if POSTGRES:
            _named[name] = new_store()
        else:
            _named[name] = _opened(name if Path(name).exists() else empty_file(Path(name)))
        _scope().callback(_named.pop, name)
    return _named[name]


def now(call: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, for a caller that may itself run in an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


def _opened(url: str) -> Store:
    store = Store.open(url, durability="normal")
    _scope().callback(store.close)
    return store


def _scope() -> ExitStack:
    return _of_test[-1] if _of_test else _forever


@cache
def _folder() -> Path:
    return Path(_forever.enter_context(TemporaryDirectory(prefix="roocontext-frameworks-")))


@cache
def _server() -> postgres_server.Postgres:
    return _forever.enter_context(postgres_server.running())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[object]:
    """Close what a test has opened, after its fixtures are gone."""
    with ExitStack() as stack:
        _of_test.append(stack)
        try:
            return (yield)
        finally:
            _of_test.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[object]:
    """Note in the report whether a store of ours was open."""
    report = yield
    if _of_test and _of_test[-1]._exit_callbacks:
        report.user_properties.append(("ours", True))
    return report


def pytest_unconfigure() -> None:
    """Close the stores that tests share, and remove all files."""
    _forever.close()

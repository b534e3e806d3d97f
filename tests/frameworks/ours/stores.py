"""Stores of ours for the tests of a framework: each is gone after the test that asked for it.

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
_of_test: list[ExitStack] = []
_numbers = count()
_named: dict[str, str] = {}


def new_store() -> Store:
    """An open store of its own."""
    return _opened(url_at(":memory:"))


def store_at(place: object) -> Store:
    """An open store at a place as the framework names it."""
    return _opened(url_at(place))


def url_at(place: object) -> str:
    """The URL of an empty store, or of that which is at this place: `:memory:` is a new one."""
    name = str(place)
    if name not in _named:
        url = _created(name)
        if name == ":memory:":
            return url
        _named[name] = url
        _scope().callback(_named.pop, name)
    return _named[name]


def _created(name: str) -> str:
    if POSTGRES:
        url = _server().fresh()
        _scope().callback(_server().drop, url)
        return url
    path = _folder() / f"{next(_numbers)}.db" if name == ":memory:" else Path(name)
    _scope().callback(path.unlink, missing_ok=True)
    return str(path) if path.exists() else empty_file(path)


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
    """Remove the stores of a test, after its fixtures are gone."""
    with ExitStack() as stack:
        _of_test.append(stack)
        try:
            return (yield)
        finally:
            _of_test.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[object]:
    """Note in the report whether the test has a store of ours."""
    report = yield
    if _of_test and _of_test[-1]._exit_callbacks:
        report.user_properties.append(("ours", True))
    return report


def pytest_unconfigure() -> None:
    """Close the stores that tests share, and remove all files."""
    _forever.close()

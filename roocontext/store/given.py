"""The store of an adapter: an open store, or the URL of one that is opened when it is needed.

With a URL, an adapter can be created where nothing can be opened or awaited yet, such as at the top
of a module. It closes only what it has opened itself (0049).
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeAlias, TypeVar

from sqlalchemy import URL

from roocontext.errors import InvalidOption, StoreClosed
from roocontext.store.aio import AsyncSession, AsyncStore
from roocontext.store.engine.engines import checked_url
from roocontext.store.engine.threads import Threads, running_trio
from roocontext.store.store import Store

AnyStore: TypeAlias = Store | AsyncStore | str | Path | URL
"""An open store, or the URL of a database, or the path of an SQLite file."""

Result = TypeVar("Result")


class Done:
    """The result of a call that has ended when it returns. Awaiting it does nothing.

    Frameworks have synchronous and asynchronous stores, and an adapter replaces either.
    """

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class GivenStore:
    """A store for the calls of an adapter, from coroutines and from plain code."""

    def __init__(self, given: AnyStore) -> None:
        self._async = given if isinstance(given, AsyncStore) else None
        self._plain = given if isinstance(given, Store) else None
        # An invalid URL is refused here, although its database is opened later.
        self._url = None if isinstance(given, Store | AsyncStore) else checked_url(given)
        self._is_given = self._url is None
        self._opening = Lock()
        self._threads = Threads()

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Run a function on the store in a thread. A cancellation is raised after it has ended."""
        if self._async is not None:
            return await self._async.run(work)
        return await self._threads.run(lambda: work(self._opened()))

    def run_now(self, work: Callable[[Store], Result]) -> Result:
        """Run a function on the store in this thread."""
        if self._async is None:
            return work(self._opened())
        with suppress(RuntimeError):
            if running_trio() is None:
                asyncio.get_running_loop()
            raise InvalidOption(
                "An event loop is running, and an AsyncStore was given: call the asynchronous"
                " method, or give a Store.",
                name="store",
            )
        return asyncio.run(self._async.run(work))

    async def session(self, session_id: str) -> AsyncSession:
        """Open the session with this id, for coroutines."""
        if self._async is not None:
            return await self._async.session(session_id)
        return AsyncSession(await self.run(lambda store: store.session(session_id)), self._threads)

    def open(self) -> Done:
        """Open the store now, unless an open one was given."""
        if self._async is None:
            self._opened()
        return Done()

    def close(self) -> Done:
        """Close the store if it was opened here. A store that was given stays open."""
        with self._opening:
            self._url = None
            if self._plain is not None and not self._is_given:
                self._plain.close()
        return Done()

    def _opened(self) -> Store:
        if self._plain is not None:
            return self._plain
        with self._opening:
            if self._plain is None:
                if self._url is None:
                    raise StoreClosed("The store is closed.")
                self._plain = Store.open(self._url)
            return self._plain


class OverStore:
    """The base of all adapters over a store: `close`, and use in a `with`."""

    _given: GivenStore

    def close(self) -> Done:
        """Close the store if it was given as a URL. The call may be awaited, but need not be."""
        return self._given.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._given.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._given.close()

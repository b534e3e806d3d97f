"""One test for both interfaces: an AsyncStore that is driven from synchronous code.

What a test calls on a `Driven` runs on an event loop in a thread of its own. So several threads may
call, and so may a callback during a call. Async iterators become lazy ordinary ones, so that a test
may write between two pages.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Self

from roocontext import AsyncChanges, AsyncSession, AsyncSessionTurn, AsyncStore, Session


class LoopThread:
    """An event loop in a thread of its own, for as long as the `with` block runs."""

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._runner.close()

    def _serve(self) -> None:
        while True:
            try:
                return self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # the call has it too, and raises it

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run it on the loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class Driven:
    """An AsyncStore, AsyncSession or its internals, with the methods of a Store or Session."""

    def __init__(self, target: Any, runner: LoopThread) -> None:
        self.target = target
        self._runner = runner

    @classmethod
    def open(cls, runner: LoopThread, url: Any, **options: Any) -> "Driven":
        return cls(runner.run(AsyncStore.open(url, **options)), runner)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if name == "internals":
            return Driven(value, self._runner)
        return self._driven(value) if callable(value) else value

    def __repr__(self) -> str:
        return f"Driven({self.target!r})"

    def _driven(self, method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            if inspect.isasyncgen(result):
                return self._pulled(result)
            if isinstance(result, AsyncChanges | AsyncSessionTurn):
                return Driven(result, self._runner)
            result = self._runner.run(result)
            if isinstance(result, (AsyncSession, AsyncStore)):
                return Driven(result, self._runner)
            return result

        return call

    def __enter__(self) -> Self:
        self._runner.run(self.target.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self.target.__aexit__(None, None, None))

    def __iter__(self) -> Iterator[Any]:
        return self._pulled(self.target)

    def _pulled(self, source: AsyncIterator[Any]) -> Iterator[Any]:
        end = object()

        async def pull() -> Any:
            return await anext(source, end)

        while (item := self._runner.run(pull())) is not end:
            yield item


def plain_session(session: Any) -> Session:
    """The session that a driven asynchronous one works on, for reports about it."""
    plain: Session = session if isinstance(session, Session) else session.target._plain
    return plain

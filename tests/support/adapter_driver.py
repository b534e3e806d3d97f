"""An adapter over a store, driven from a synchronous test."""

import asyncio
from contextlib import ExitStack
from typing import Any, ClassVar

from roocontext import AsyncStore, Store


class AdapterDriver:
    """The adapter over a store, driven from a test, and the same store for looking into it."""

    adapter_class: ClassVar[Any]

    def __init__(self, url: str) -> None:
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.url = url
        self._store = self.run(AsyncStore.open(url, durability="normal"))
        self._stack.callback(lambda: self.run(self._store.close()))
        self.store = self._stack.enter_context(Store.open(url))
        self.restart()

    def restart(self) -> None:
        """An adapter that knows nothing, as in a new process."""
        self.adapter = self.adapter_class(self._store)

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def close(self) -> None:
        self._stack.close()

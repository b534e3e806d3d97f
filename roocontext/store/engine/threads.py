"""The threads that an AsyncStore runs its calls in."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from roocontext.errors import StoreClosed

THREADS = 16

Params = ParamSpec("Params")
Result = TypeVar("Result")


class Threads:
    """Runs calls in threads and joins those whose caller was cancelled."""

    def __init__(self) -> None:
        self._begin_life()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="roocontext")

    async def run(
        self, call: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        """Run a call in a thread. A cancellation is raised after the call has ended."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():  # threads stay behind in the parent
            self._begin_life()
        try:
            running = loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))
        except RuntimeError:  # the executor was shut down
            raise StoreClosed("The store is closed.") from None
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                result = await asyncio.shield(running)
            except asyncio.CancelledError as error:
                if running.cancelled():
                    raise
                cancelled = error
            except BaseException:
                if cancelled is not None:
                    raise cancelled from None
                raise
            else:
                if cancelled is not None:
                    raise cancelled
                return result

    def shut_down(self) -> None:
        """Accept no more calls; those that run are finished."""
        self._executor.shutdown(wait=False)

"""The threads that an AsyncStore runs its calls in."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

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
            running = self._executor.submit(call, *args, **kwargs)
        except RuntimeError:  # the executor was shut down
            raise StoreClosed("The store is closed.") from None
        cancelled: asyncio.CancelledError | None = None
        while True:
            # A future of our own, so that a cancellation does not reach the call.
            ended = loop.create_future()
            running.add_done_callback(partial(_notify, loop, ended))
            try:
                await ended
            except asyncio.CancelledError as error:
                cancelled = error
            else:
                break
        if cancelled is not None:
            raise cancelled
        return running.result()

    def shut_down(self) -> None:
        """Accept no more calls; those that run are finished."""
        self._executor.shutdown(wait=False)


def _notify(loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None], _: Any) -> None:
    with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
        loop.call_soon_threadsafe(_end, ended)


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)

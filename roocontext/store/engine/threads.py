"""The threads that an AsyncStore runs its calls in.

An executor of the standard library makes two futures for each call, and its idle threads take
turns. With it, a short call through an adapter took about a tenth longer (0010).
"""

import asyncio
import atexit
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any, Final, Generic, ParamSpec, TypeVar
from weakref import WeakSet, finalize

from roocontext.errors import InvalidOption, StoreClosed, StoreUnavailable

MOST: Final = 16
"""How many calls of a store run at once."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


class Threads:
    """Runs calls in threads and joins those whose caller was cancelled."""

    def __init__(self) -> None:
        self._begin_life()

    def _begin_life(self) -> None:
        self._crew = _Crew()
        # A store that nobody closed must not keep them.
        self.shut_down = finalize(self, self._crew.end)
        """Accept no more calls; those that run are finished."""

    async def run(
        self, call: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        """Run a call in a thread. A cancellation is raised after the call has ended."""
        if self._crew.process != os.getpid():  # threads stay behind in the parent
            self._begin_life()
        # Trio is not imported here: where it runs, somebody has imported it (0050).
        trio = sys.modules.get("trio")
        is_trio = trio is not None and trio.lowlevel.in_trio_task()
        kind: type[_Job[Result]] = _OfTrio if is_trio else _OfAsyncio
        job = kind(lambda: call(*args, **kwargs))
        self._crew.take(job)
        await job.joined()
        return job.outcome()


class _Job(ABC, Generic[Result]):
    """A call of a coroutine, which waits for it."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._result: Result
        self._error: BaseException | None = None

    def do(self) -> None:
        """Call it, in a thread."""
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            self._error = error
        finally:
            del self._call  # the thread may keep this job for longer than the coroutine waits

    def outcome(self) -> Result:
        """What the call returned or raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback refers to this job
        return self._result

    @abstractmethod
    def report(self) -> None:
        """Wake the coroutine, from the thread."""

    @abstractmethod
    async def joined(self) -> None:
        """Wait until the call has ended. Only then is a cancellation raised."""


class _OfAsyncio(_Job[Result]):
    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__(call)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidOption(
                "An AsyncStore is called by a coroutine of asyncio or trio, and neither runs here.",
                name="store",
            ) from None
        self._waits: asyncio.Future[None] = self._loop.create_future()
        self._has_ended = False

    def report(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._end)

    async def joined(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while not self._has_ended:
            try:
                await self._waits
            except asyncio.CancelledError as error:
                cancelled = error
                self._waits = self._loop.create_future()
        if cancelled is not None:
            raise cancelled

    def _end(self) -> None:
        self._has_ended = True
        if not self._waits.done():
            self._waits.set_result(None)


class _OfTrio(_Job[Result]):
    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__(call)
        self._trio: Any = sys.modules["trio"]
        self._token = self._trio.lowlevel.current_trio_token()
        self._has_ended = self._trio.Event()

    def report(self) -> None:
        with suppress(self._trio.RunFinishedError):  # nobody waits any more
            self._token.run_sync_soon(self._has_ended.set)

    async def joined(self) -> None:
        with self._trio.CancelScope(shield=True):
            await self._has_ended.wait()
        await self._trio.lowlevel.checkpoint_if_cancelled()


class _Crew:
    """Threads that are started when all others have something to do."""

    def __init__(self) -> None:
        self.process = os.getpid()
        # Of the kind that a thread may take twice: the garbage collector may call `end` anywhere.
        self._lock = RLock()
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._undone = 0
        self._threads: list[Thread] = []
        self._has_ended = False
        _crews.add(self)

    def take(self, job: _Job[Any]) -> None:
        """Let a thread do a job."""
        with self._lock:
            if self._has_ended:
                raise StoreClosed("The store is closed.")
            if len(self._threads) <= min(self._undone, MOST - 1):
                self._start_another()
            self._undone += 1
            self._jobs.put(job)

    def end(self) -> list[Thread]:
        """Let the threads end when all jobs are done; a forked child has none of them."""
        if self.process != os.getpid():
            return []
        with self._lock:
            self._has_ended = True
            for _ in self._threads:
                self._jobs.put(None)
            return self._threads

    def _start_another(self) -> None:
        name = f"roocontext-{len(self._threads)}"
        # The interpreter would wait for other threads before anything can end those that are idle.
        thread = Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise StoreUnavailable(f"No thread can be started: {error}.") from None
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do()
            # Before the report: what follows on it finds this thread free.
            with self._lock:
                self._undone -= 1
            job.report()
            del job


_crews: WeakSet[_Crew] = WeakSet()


@atexit.register
def _join_all() -> None:
    """Wait for the calls that run when the interpreter ends: a loop may have left them."""
    for crew in list(_crews):
        for thread in crew.end():
            thread.join()

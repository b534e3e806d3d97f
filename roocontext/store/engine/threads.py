"""The threads that an AsyncStore runs its calls in, and the one that a health check waits for."""

import asyncio
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Any, Final, ParamSpec, TypeVar

from roocontext.errors import InvalidOption, StoreClosed, StoreUnavailable

MOST: Final = 16
"""How many calls of a store run at once."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


def started(target: Callable[..., None], *args: Any, name: str) -> Thread:
    """A thread that has begun, and does not keep the process from ending."""
    thread = Thread(target=target, args=args, name=f"roocontext-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise StoreUnavailable(f"No thread can be started: {error}.") from None
    return thread


def running_trio() -> Any:
    """The module trio if one of its tasks runs here, else None."""
    # It is not imported here: where it runs, somebody has imported it (0050).
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None


class Probe:
    """Runs a check in a thread and waits for its end, but not longer than it is asked to.

    If a check does not end, no second one starts: the next caller waits for the same check.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._last: Future[None] | None = None
        self._process = os.getpid()

    def run(self, seconds: float) -> None:
        """Raise what the check raises, or StoreUnavailable if it does not end in time."""
        last = self._last
        if last is None or last.done() or self._process != os.getpid():
            self._process, self._last = os.getpid(), (last := Future())
            try:
                started(self._answer, last, name="ping")
            except BaseException:  # an interrupt too: nobody may answer
                self._last = None
                raise
        try:
            last.result(seconds)
        except TimeoutError:
            raise StoreUnavailable(
                f"The database did not answer within {seconds:g} seconds."
            ) from None

    def _answer(self, answer: "Future[None]") -> None:
        try:
            self._check()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)
        else:
            answer.set_result(None)


class Threads:
    """Runs calls in threads and joins those whose caller was cancelled."""

    def __init__(self) -> None:
        self._is_closed = False
        self._begin_life()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(MOST, thread_name_prefix="roocontext")

    def shut_down(self) -> None:
        """Accept no more calls; those that run are finished."""
        self._is_closed = True
        self._executor.shutdown(wait=False)

    async def run(
        self, call: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        """Run a call in a thread. A cancellation is raised after the call has ended."""
        if (trio := running_trio()) is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                raise InvalidOption(
                    "Call an AsyncStore from a coroutine of asyncio or trio: neither is running"
                    " here.",
                    name="store",
                ) from None
        future = self._submit(call, *args, **kwargs)
        cancelled: asyncio.CancelledError | None = None
        try:
            if trio is not None:
                with trio.CancelScope(shield=True):
                    await self.until(future, None)
                await trio.lowlevel.checkpoint_if_cancelled()
                return future.result()
            is_waiting = True  # at least once: other tasks run meanwhile, however short the call
            while is_waiting:
                try:
                    await self.until(future, None)
                except asyncio.CancelledError as error:
                    cancelled = error
                is_waiting = not future.done()
            if cancelled is not None:
                raise cancelled
            return future.result()
        finally:
            del cancelled, future  # an error's traceback refers to this frame

    async def until(self, future: "Future[Any]", seconds: float | None) -> None:
        """Wait until a future is done, or for so long. A cancellation ends the wait at once."""
        if (trio := running_trio()) is not None:
            in_trio, token = trio.Event(), trio.lowlevel.current_trio_token()
            future.add_done_callback(lambda _: _call_soon(token.run_sync_soon, in_trio.set))
            with trio.move_on_after(math.inf if seconds is None else seconds):
                await in_trio.wait()
            return
        loop = asyncio.get_running_loop()
        woken = loop.create_future()  # an Event and asyncio.timeout take 10 us more

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        future.add_done_callback(lambda _: _call_soon(loop.call_soon_threadsafe, wake))
        timer = None if seconds is None else loop.call_later(seconds, wake)
        try:
            await woken
        finally:
            if timer is not None:
                timer.cancel()

    def start(self, call: Callable[[], object]) -> None:
        """Begin a call whose result nobody waits for."""
        with suppress(StoreClosed, StoreUnavailable):
            self._submit(call)

    def _submit(
        self, call: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Future[Result]:
        if self._process != os.getpid():  # a fork copies no threads
            self._begin_life()
        if self._is_closed:
            raise StoreClosed("The store is closed.")
        try:
            # The caller's context, in which an observer finds its span.
            context = copy_context()
            return self._executor.submit(lambda: context.run(call, *args, **kwargs))
        except RuntimeError as error:
            # The executor keeps the call, and runs it if another thread of it is free.
            raise StoreUnavailable(
                f"No thread can be started: {error}.", outcome_unknown=True
            ) from None


def _call_soon(schedule: Callable[[Callable[[], None]], object], wake: Callable[[], None]) -> None:
    """Wake a coroutine from another thread."""
    # The loop may be closed, and then nobody waits any more: asyncio's error, and trio's.
    with suppress(RuntimeError):
        schedule(wake)

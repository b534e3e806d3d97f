"""The steps of a run, and the two ways to carry them out.

A run is written once, as a generator (0015). It yields each call that may have to be awaited: of
the session, of the summariser or of a hook. `drive` makes the call and sends its result back;
`drive_async` awaits the result first.
"""

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable, iscoroutine
from typing import Any, TypeAlias, TypeVar, cast

from roocontext.errors import InvalidOption

T = TypeVar("T")

RunCall: TypeAlias = Callable[[], Any]
"""A call whose result may have to be awaited."""

Steps: TypeAlias = Generator[RunCall, object, T]
"""A part of a run that ends with a T."""


def ask(call: Callable[[], T | Awaitable[T]]) -> Steps[T]:
    """Yield a call, and return its result. Only here does a result get its type."""
    return cast("T", (yield call))


def drive(steps: Steps[T]) -> T:
    """Carry out the steps where nothing can be awaited."""
    resume: Callable[[Any], RunCall] = steps.send
    result: object = None
    while True:
        try:
            call = resume(result)
        except StopIteration as stop:
            return cast("T", stop.value)
        try:
            result, resume = _at_once(call()), steps.send
        except BaseException as error:  # noqa: BLE001 - the run decides, interrupts included
            result, resume = error, steps.throw


async def drive_async(steps: Steps[T]) -> T:
    """Carry out the steps and await their results, in the task of the caller."""
    resume: Callable[[Any], RunCall] = steps.send
    result: object = None
    while True:
        try:
            call = resume(result)
        except StopIteration as stop:
            return cast("T", stop.value)
        try:
            answer, resume = call(), steps.send
            result = await answer if isawaitable(answer) else answer
        except BaseException as error:  # noqa: BLE001 - the run decides, cancellations included
            result, resume = error, steps.throw


def _at_once(result: object) -> object:
    """Return a result that needs no event loop; refuse a coroutine."""
    if iscoroutine(result):
        result.close()
        raise InvalidOption("An asynchronous call needs AsyncContextManager.", name="hooks")
    return result

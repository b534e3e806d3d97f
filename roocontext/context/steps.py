"""What a run asks for, and the two ways to give it.

A run is written once, as a generator (0015). It yields a step for everything that may have to be
awaited: a call of the session, of the summariser or of a hook. `drive` makes the call and gives its
result back; `drive_async` awaits it first.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from typing import Any, Generic, TypeAlias, TypeVar, cast

from roocontext.errors import InvalidOption

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunStep(Generic[T]):
    """One call, whose result may have to be awaited."""

    call: Callable[[], T | Awaitable[T]]


Steps: TypeAlias = Generator[RunStep[Any], object, T]
"""A part of a run that ends with a T."""


def ask(call: Callable[[], T | Awaitable[T]]) -> Steps[T]:
    """RunStep a call; its result. Only here is a result given its type."""
    return cast("T", (yield RunStep(call)))


def drive(steps: Steps[T]) -> T:
    """Run it where nothing can be awaited."""
    go: Callable[[Any], RunStep[Any]] = steps.send
    given: object = None
    while True:
        try:
            request = go(given)
        except StopIteration as stop:
            return cast("T", stop.value)
        try:
            given, go = _at_once(request.call()), steps.send
        except BaseException as error:  # noqa: BLE001 - the run decides, interrupts included
            given, go = error, steps.throw


async def drive_async(steps: Steps[T]) -> T:
    """Run it, and await what must be, in the task of the caller."""
    go: Callable[[Any], RunStep[Any]] = steps.send
    given: object = None
    while True:
        try:
            request = go(given)
        except StopIteration as stop:
            return cast("T", stop.value)
        try:
            result, go = request.call(), steps.send
            given = await result if isawaitable(result) else result
        except BaseException as error:  # noqa: BLE001 - the run decides, cancellations included
            given, go = error, steps.throw


def _at_once(result: object) -> object:
    """A result that needs no loop; InvalidOption for what has to be awaited."""
    if iscoroutine(result):
        result.close()
        raise InvalidOption("What must be awaited needs AsyncContextManager.", name="hooks")
    return result

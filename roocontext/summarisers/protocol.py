"""What a summariser is, and how any function becomes one.

A summariser is asked for a summary and gives one, or raises SummaryFailed and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

from roocontext.errors import InvalidOption, SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest


class Summariser(Protocol):
    """Gives summaries."""

    @property
    def name(self) -> str:
        """The name that its summaries carry."""
        ...

    def summarise(self, request: SummaryRequest) -> Summary:
        """Give a summary, or raise SummaryFailed."""
        ...


class AsyncSummariser(Protocol):
    """Gives summaries that are waited for."""

    @property
    def name(self) -> str:
        """The name that its summaries carry."""
        ...

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Give a summary, or raise SummaryFailed."""
        ...


AnySummariser: TypeAlias = Summariser | AsyncSummariser

Answer: TypeAlias = str | Summary


def as_summariser(thing: Any) -> AnySummariser:
    """Take a summariser as it is, and make one of a function of the request.

    The function answers with a text or a Summary, and may be a coroutine function.
    """
    if callable(getattr(thing, "summarise", None)):
        summariser: AnySummariser = thing
        return summariser
    if not callable(thing):
        raise InvalidOption(
            f"summariser is a summariser or a function, not {type(thing).__name__}.",
            name="summariser",
        )
    name = getattr(thing, "__name__", type(thing).__name__)
    awaited = iscoroutinefunction(thing) or iscoroutinefunction(type(thing).__call__)
    return AsyncCalled(name, thing) if awaited else Called(name, thing)


def is_async(summariser: AnySummariser) -> TypeGuard[AsyncSummariser]:
    """Whether its answer has to be awaited."""
    return iscoroutinefunction(summariser.summarise)


async def summarised(summariser: AnySummariser, request: SummaryRequest) -> Summary:
    """Ask either kind; one that is not asynchronous is asked in a thread."""
    if is_async(summariser):
        return await summariser.summarise(request)
    blocking = cast("Summariser", summariser)
    return await asyncio.to_thread(_asked, blocking, request)


def _asked(summariser: Summariser, request: SummaryRequest) -> Summary:
    try:
        return summariser.summarise(request)
    except StopIteration as fault:  # no future can hold it: who awaits it would wait for ever
        raise _failed(summariser.name, "error", calls=1) from fault


@dataclass(frozen=True, slots=True)
class Called:
    """A function as a summariser; whatever it raises is a failure."""

    name: str
    function: Callable[[SummaryRequest], Answer]

    def summarise(self, request: SummaryRequest) -> Summary:
        """Call the function."""
        with _failing(self.name):
            return _summary(self.name, self.function(request))


@dataclass(frozen=True, slots=True)
class AsyncCalled:
    """A coroutine function as a summariser; whatever it raises is a failure."""

    name: str
    function: Callable[[SummaryRequest], Awaitable[Answer]]

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Await the function."""
        with _failing(self.name):
            return _summary(self.name, await self.function(request))


@contextmanager
def _failing(name: str) -> Iterator[None]:
    try:
        yield
    except SummaryFailed:
        raise
    except Exception as fault:
        raise _failed(name, "error", calls=1) from fault


def _summary(name: str, answer: object) -> Summary:
    if iscoroutine(answer):
        answer.close()
    if isinstance(answer, str):
        answer = Summary(text=answer, summariser=name, calls=1)
    if not isinstance(answer, Summary):
        raise _failed(name, "invalid", calls=1)
    if not answer.text.strip():
        raise _failed(name, "empty", calls=answer.calls)
    return answer


def _failed(name: str, kind: str, *, calls: int) -> SummaryFailed:
    return SummaryFailed(
        f"{name} gave no summary: {kind}.", summariser=name, kind=kind, calls=calls
    )

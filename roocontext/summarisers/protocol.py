"""The protocol of a summariser, and the wrapper that makes one of any function.

A summariser returns a summary or raises SummaryFailed. It raises nothing else.
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
    """Writes summaries."""

    @property
    def name(self) -> str:
        """The name that is recorded with each of its summaries."""
        ...

    def summarise(self, request: SummaryRequest) -> Summary:
        """Return a summary, or raise SummaryFailed."""
        ...


class AsyncSummariser(Protocol):
    """Writes summaries asynchronously."""

    @property
    def name(self) -> str:
        """The name that is recorded with each of its summaries."""
        ...

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Return a summary, or raise SummaryFailed."""
        ...


AnySummariser: TypeAlias = Summariser | AsyncSummariser

Answer: TypeAlias = str | Summary


def as_summariser(thing: Any) -> AnySummariser:
    """Return a summariser unchanged, or wrap a function as one.

    The function takes the request, returns a text or a Summary, and may be a coroutine function.
    """
    if callable(getattr(thing, "summarise", None)):
        summariser: AnySummariser = thing
        return summariser
    if not callable(thing):
        raise InvalidOption(
            f"summariser must be a summariser or a function, not {type(thing).__name__}.",
            name="summariser",
        )
    name = getattr(thing, "__name__", type(thing).__name__)
    awaited = iscoroutinefunction(thing) or iscoroutinefunction(type(thing).__call__)
    return AsyncCalled(name, thing) if awaited else Called(name, thing)


def is_async(summariser: AnySummariser) -> TypeGuard[AsyncSummariser]:
    """Whether its result must be awaited."""
    return iscoroutinefunction(summariser.summarise)


async def summarised(summariser: AnySummariser, request: SummaryRequest) -> Summary:
    """Await a summary from either kind; a synchronous summariser runs in a thread."""
    if is_async(summariser):
        return await summariser.summarise(request)
    blocking = cast("Summariser", summariser)
    return await asyncio.to_thread(_asked, blocking, request)


def _asked(summariser: Summariser, request: SummaryRequest) -> Summary:
    try:
        return summariser.summarise(request)
    except (
        StopIteration
    ) as fault:  # a future cannot hold StopIteration: awaiting it would never end
        raise _failed(summariser.name, request, "error", calls=1) from fault


@dataclass(frozen=True, slots=True)
class Called:
    """A function as a summariser; any exception becomes SummaryFailed."""

    name: str
    function: Callable[[SummaryRequest], Answer]

    def summarise(self, request: SummaryRequest) -> Summary:
        """Call the function."""
        with _failing(self.name, request):
            return _summary(self.name, request, self.function(request))


@dataclass(frozen=True, slots=True)
class AsyncCalled:
    """A coroutine function as a summariser; any exception becomes SummaryFailed."""

    name: str
    function: Callable[[SummaryRequest], Awaitable[Answer]]

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Await the function."""
        with _failing(self.name, request):
            return _summary(self.name, request, await self.function(request))


@contextmanager
def _failing(name: str, request: SummaryRequest) -> Iterator[None]:
    try:
        yield
    except SummaryFailed as failure:
        failure.summariser = failure.summariser or name
        failure.model = failure.model or request.model
        raise
    except Exception as fault:
        raise _failed(name, request, "error", calls=1) from fault


# A function is asked for a summary by the model that the request names. One that uses another model
# says so in its Summary.


def _summary(name: str, request: SummaryRequest, answer: object) -> Summary:
    if iscoroutine(answer):
        # It would never run, and Python would warn of it at some later moment.
        answer.close()
    if isinstance(answer, str):
        answer = Summary(text=answer, summariser=name, model=request.model, calls=1)
    if not isinstance(answer, Summary):
        raise _failed(name, request, "invalid", calls=1)
    if not answer.text.strip():
        raise _failed(name, request, "empty", calls=answer.calls)
    return answer


def _failed(name: str, request: SummaryRequest, kind: str, *, calls: int) -> SummaryFailed:
    return SummaryFailed(
        f"{name} gave no summary: {kind}.",
        summariser=name,
        kind=kind,
        model=request.model,
        calls=calls,
    )

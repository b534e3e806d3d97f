"""The protocol of a summariser, the wrapper of a function, and the fallback to a second one.

A summariser returns a summary or raises SummaryFailed, and no other exception. After a fallback,
the summary names the first summariser's failure and holds its cost.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeGuard, TypeVar, cast

from roocontext.errors import InvalidOption, SummaryFailed
from roocontext.log.summary import (
    FailedCalls,
    Summary,
    SummaryRequest,
    failed_calls,
    total_cost,
)


class Summariser(Protocol):
    """Writes summaries."""

    @property
    def name(self) -> str:
        """The name that is recorded with each of its summaries."""

    def summarise(self, request: SummaryRequest) -> Summary:
        """Return a summary, or raise SummaryFailed."""


class AsyncSummariser(Protocol):
    """Writes summaries asynchronously."""

    @property
    def name(self) -> str:
        """The name that is recorded with each of its summaries."""

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Return a summary, or raise SummaryFailed."""


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
    """Return True if the summariser's result must be awaited."""
    return iscoroutinefunction(summariser.summarise)


async def summarised(summariser: AnySummariser, request: SummaryRequest) -> Summary:
    """Await a summary from either kind; a synchronous summariser runs in a thread."""
    if is_async(summariser):
        return await summariser.summarise(request)
    blocking = cast("Summariser", summariser)
    trio: Any = sys.modules.get("trio")  # not imported here: where it runs, somebody has (0050)
    if trio is not None and trio.lowlevel.in_trio_task():
        run = trio.to_thread.run_sync
        return cast("Summary", await run(_asked, blocking, request, abandon_on_cancel=True))
    return await asyncio.to_thread(_asked, blocking, request)


def _asked(summariser: Summariser, request: SummaryRequest) -> Summary:
    try:
        return summariser.summarise(request)
    # A future cannot hold StopIteration: awaiting it would never end.
    except StopIteration as fault:
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


def _summary(name: str, request: SummaryRequest, answer: object) -> Summary:
    # A text is taken for the answer of the model that the request names. A function that uses
    # another model returns a Summary.
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


_log: Final = logging.getLogger(__name__)


def with_fallback(first: Any, second: Any) -> AnySummariser:
    """Combine two summarisers; the result is asynchronous if either of them is."""
    both = as_summariser(first), as_summariser(second)
    if any(map(is_async, both)):
        return AsyncFallback(*both)
    return Fallback(*cast("tuple[Summariser, Summariser]", both))


_Asked = TypeVar("_Asked", bound=AnySummariser)


@dataclass(frozen=True, slots=True)
class _Both(Generic[_Asked]):
    first: _Asked
    second: _Asked

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.first.name}, {self.second.name}"


@dataclass(frozen=True, slots=True)
class Fallback(_Both[Summariser]):
    """Asks `second` when `first` fails."""

    def summarise(self, request: SummaryRequest) -> Summary:
        """Return the summary of the first that succeeds."""
        try:
            return self.first.summarise(request)
        except SummaryFailed as failure:
            first = _of(self.first, failure)
            try:
                return _after(first, self.second.summarise(request))
            except SummaryFailed as again:
                raise _both(failure, (*first, *_of(self.second, again))) from again


@dataclass(frozen=True, slots=True)
class AsyncFallback(_Both[AnySummariser]):
    """Asks `second` when `first` fails; either may be synchronous."""

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Return the summary of the first that succeeds."""
        try:
            return await summarised(self.first, request)
        except SummaryFailed as failure:
            first = _of(self.first, failure)
            try:
                return _after(first, await summarised(self.second, request))
            except SummaryFailed as again:
                raise _both(failure, (*first, *_of(self.second, again))) from again


def _of(summariser: AnySummariser, failure: SummaryFailed) -> tuple[FailedCalls, ...]:
    """The cost of a failure; an attempt without a name is that of this summariser."""
    attempts = failed_calls(failure)
    return tuple(
        replace(attempt, summariser=attempt.summariser or summariser.name) for attempt in attempts
    )


def _after(failed: tuple[FailedCalls, ...], summary: Summary) -> Summary:
    _log.warning(
        "%s gave no summary: %s. %s was used instead.", *_named(failed), summary.summariser
    )
    _, kinds = _named((*failed, *summary.failed))
    return replace(summary, fallback=kinds, failed=(*failed, *summary.failed))


def _both(first: SummaryFailed, attempts: tuple[FailedCalls, ...]) -> SummaryFailed:
    names, kinds = _named(attempts)
    return SummaryFailed(
        f"{names} gave no summary: {kinds}.",
        summariser=names,
        kind=kinds,
        status=first.status,
        calls=sum(attempt.calls for attempt in attempts),
        input_tokens=sum(attempt.input_tokens for attempt in attempts),
        output_tokens=sum(attempt.output_tokens for attempt in attempts),
        cost=total_cost(attempts),
        attempts=attempts,
    )


def _named(attempts: tuple[FailedCalls, ...]) -> tuple[str, str]:
    """The names of the summarisers, and how they failed."""
    return ", ".join(attempt.summariser for attempt in attempts), ", ".join(
        attempt.kind for attempt in attempts
    )

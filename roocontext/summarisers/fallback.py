"""A summariser that asks a second one when the first fails, and keeps what the failure cost."""

import logging
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from roocontext.errors import SummaryFailed
from roocontext.log.summary import (
    FailedCalls,
    Summary,
    SummaryRequest,
    failed_calls,
    total_cost,
)
from roocontext.summarisers.protocol import (
    AnySummariser,
    Summariser,
    as_summariser,
    is_async,
    summarised,
)

_log: Final = logging.getLogger(__name__)


def with_fallback(first: Any, second: Any) -> AnySummariser:
    """Combine two summarisers; the result is asynchronous if either of them is."""
    one, other = as_summariser(first), as_summariser(second)
    if is_async(one) or is_async(other):
        return AsyncFallback(one, other)
    return Fallback(cast("Summariser", one), cast("Summariser", other))


@dataclass(frozen=True, slots=True)
class Fallback:
    """Asks `second` when `first` fails."""

    first: Summariser
    second: Summariser

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.first.name}, {self.second.name}"

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
class AsyncFallback:
    """Asks `second` when `first` fails; either may be synchronous."""

    first: AnySummariser
    second: AnySummariser

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.first.name}, {self.second.name}"

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
    """What a failure has cost; one that names no summariser is that of the one asked."""
    attempts = failed_calls(failure)
    return tuple(replace(one, summariser=one.summariser or summariser.name) for one in attempts)


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
        calls=sum(one.calls for one in attempts),
        input_tokens=sum(one.input_tokens for one in attempts),
        output_tokens=sum(one.output_tokens for one in attempts),
        cost=total_cost(attempts),
        attempts=attempts,
    )


def _named(attempts: tuple[FailedCalls, ...]) -> tuple[str, str]:
    """The names of the summarisers, and how they failed."""
    return ", ".join(one.summariser for one in attempts), ", ".join(one.kind for one in attempts)

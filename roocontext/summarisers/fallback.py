"""A summariser that asks a second one when the first fails, and records the failure.

The cost of the failed calls is added to the cost of the summary.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from roocontext.errors import SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest
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
        except SummaryFailed as failed:
            try:
                return _after(failed, self.second.summarise(request))
            except SummaryFailed as again:
                raise _both(failed, again) from again


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
        except SummaryFailed as failed:
            try:
                return _after(failed, await summarised(self.second, request))
            except SummaryFailed as again:
                raise _both(failed, again) from again


def _after(failed: SummaryFailed, summary: Summary) -> Summary:
    _log.warning(
        "%s gave no summary: %s. %s was used instead.",
        failed.summariser,
        failed.kind,
        summary.summariser,
    )
    kinds = filter(None, (failed.kind, summary.fallback))
    return replace(summary, fallback=", ".join(kinds), **_spent(failed, summary))


def _both(failed: SummaryFailed, again: SummaryFailed) -> SummaryFailed:
    kind = f"{failed.kind}, {again.kind}"
    name = f"{failed.summariser}, {again.summariser}"
    spent = _spent(failed, again)
    return SummaryFailed(
        f"{name} gave no summary: {kind}.",
        summariser=name,
        kind=kind,
        status=failed.status,
        **spent,
    )


def _spent(one: SummaryFailed, other: Summary | SummaryFailed) -> dict[str, Any]:
    costs = [spent.cost for spent in (one, other) if spent.cost is not None]
    return {
        "calls": one.calls + other.calls,
        "input_tokens": one.input_tokens + other.input_tokens,
        "output_tokens": one.output_tokens + other.output_tokens,
        "cost": sum(costs) if costs else None,
    }

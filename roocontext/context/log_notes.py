"""What a run writes into the log beside its plans: numbers, names and ids, never content."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from roocontext.context.hooks import Heard
from roocontext.errors import BudgetExceeded, SummaryFailed, SystemPromptTooLarge, TurnTooLarge
from roocontext.log.reported import FAILED_SUMMARIES
from roocontext.log.summary import FailedCalls, Summary, failed_calls
from roocontext.policies.decision import TooLarge


def record_of(summary: Summary | None, heard: Heard) -> dict[str, Any]:
    """What is recorded of the summariser and of the hooks, with the entry."""
    record: dict[str, Any] = {"hooks": heard.results} if heard.results else {}
    return record if summary is None else {**record, "summary": facts_of(summary)}


def facts_of(summary: Summary) -> dict[str, Any]:
    """What a summary was made by, and what it cost."""
    failed = [asdict(one) for one in summary.failed]
    return {
        "summariser": summary.summariser,
        "model": summary.model,
        "calls": summary.calls,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost": summary.cost,
        "fallback": summary.fallback,
        **({"failed": failed} if failed else {}),
        **summary.facts,
    }


def paid_for(failed: Exception | Summary) -> tuple[FailedCalls, ...]:
    """The calls that came to nothing: those before an error, or for a summary that was refused."""
    if isinstance(failed, Exception):
        return failed_calls(failed) if isinstance(failed, SummaryFailed) else ()
    own = FailedCalls(
        summariser=failed.summariser,
        kind="refused",
        model=failed.model,
        calls=failed.calls,
        input_tokens=failed.input_tokens,
        output_tokens=failed.output_tokens,
        cost=failed.cost,
    )
    return (*failed.failed, own)


def facts_of_failure(paid: Sequence[FailedCalls]) -> dict[str, Any]:
    """The calls that gave no usable summary, as a note keeps them."""
    made = [asdict(one) for one in paid if one.calls]
    return {FAILED_SUMMARIES: made} if made else {}


def reason_of(error: Exception) -> str:
    """Who failed and how, by names alone: the text of an error may hold content."""
    if not isinstance(error, SummaryFailed):
        return type(error).__name__
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
    return f"{error.summariser or 'The summariser'} gave no summary: {error.kind}{cause}."


def refusal_of(large: TooLarge) -> BudgetExceeded:
    """The error that says what is too large, with both numbers."""
    kind = SystemPromptTooLarge if large.part == "system" else TurnTooLarge
    return kind(
        f"{large.needed:,} {large.unit} are needed, and {large.limit:,} are the limit.",
        needed=large.needed,
        limit=large.limit,
        unit=large.unit,
    )

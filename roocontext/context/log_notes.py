"""What a run writes into the log beside its plans: numbers, names and ids, never content."""

from typing import Any

from roocontext.context.hooks import Heard
from roocontext.errors import BudgetExceeded, SummaryFailed, SystemPromptTooLarge, TurnTooLarge
from roocontext.log.summary import Summary
from roocontext.policies.decision import TooLarge


def record_of(summary: Summary | None, heard: Heard) -> dict[str, Any]:
    """What is recorded of the summariser and of the hooks, with the entry."""
    record: dict[str, Any] = {"hooks": heard.results} if heard.results else {}
    return record if summary is None else {**record, "summary": facts_of(summary)}


def facts_of(summary: Summary) -> dict[str, Any]:
    """What a summary was made by, and what it cost."""
    return {
        "summariser": summary.summariser,
        "model": summary.model,
        "calls": summary.calls,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost": summary.cost,
        "fallback": summary.fallback,
        **summary.facts,
    }


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

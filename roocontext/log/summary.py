"""The request from a policy to a summariser, and the answer: data that both sides share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any, TypeAlias

from roocontext.errors import SummaryFailed

OutgoingMessage: TypeAlias = Mapping[str, Any]
"""A message as it is sent: its role, and its content as text or Anthropic's blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What to summarise, and how.

    `messages` are in order and as the model saw them. `style` names the prompt. `previous` is the
    text of the summary that this one replaces; what still applies should be kept. `longest` is
    the most tokens that a useful answer may have, and `characters` is about how many characters
    that is. `instruction` replaces the last user text of the style, and `prompt` its system prompt.
    """

    messages: Sequence[OutgoingMessage]
    style: str = "default"
    previous: str | None = None
    longest: int | None = None
    characters: int | None = None
    instruction: str | None = None
    prompt: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCalls:
    """The calls of a summariser that gave no summary, and their cost. `kind` says how it failed."""

    summariser: str
    kind: str
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


def failed_calls(error: SummaryFailed) -> tuple[FailedCalls, ...]:
    """What a failure has cost, by summariser. Values that are not numbers are left out."""
    return error.attempts or (
        FailedCalls(
            summariser=error.summariser,
            kind=error.kind,
            model=error.model if isinstance(error.model, str) else None,
            calls=_count(error.calls),
            input_tokens=_count(error.input_tokens),
            output_tokens=_count(error.output_tokens),
            cost=error.cost
            if isinstance(error.cost, int | float) and isfinite(error.cost)
            else None,
        ),
    )


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summariser's answer and its cost. `failed` are the calls of others that failed before it.

    `fallback` names these failures. `calls`, tokens and `cost` are the summariser's own.
    """

    text: str
    summariser: str
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    fallback: str | None = None
    failed: tuple[FailedCalls, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def total_cost(paid: Iterable[FailedCalls | Summary]) -> float | None:
    """The sum of the known costs, if there is any."""
    costs = [one.cost for one in paid if one.cost is not None]
    return fsum(costs) if costs else None

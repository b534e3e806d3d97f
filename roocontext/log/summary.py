"""What a policy asks a summariser for, and what it gets: data that both sides share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Outgoing: TypeAlias = Mapping[str, Any]
"""A message as it is sent: its role, and its content as text or Anthropic's blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What is to be summarised, and how.

    `messages` are in order and as the model saw them. `style` names the prompt. `previous` is the
    text of the summary that this one replaces: what still holds of it is to be kept. `longest` is
    how many tokens the answer may have to be of use, `characters` about how many characters that
    are. `instruction` is what the user says last;
    `prompt` replaces the style's own system prompt; both are the style's when None.
    """

    messages: Sequence[Outgoing]
    style: str = "default"
    previous: str | None = None
    longest: int | None = None
    characters: int | None = None
    instruction: str | None = None
    prompt: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summariser's answer, and what it cost. `fallback` names what failed before, if anything."""

    text: str
    summariser: str
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    fallback: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

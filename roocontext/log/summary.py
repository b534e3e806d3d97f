"""The request from a policy to a summariser, and the answer: data that both sides share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
class Summary:
    """A summariser's answer and its cost. `fallback` names the failures before it, if any."""

    text: str
    summariser: str
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    fallback: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

"""What a provider says a call has cost, and how far our counts were from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.encoding import plain


class Usage(NamedTuple):
    """Tokens of one call: all that was sent, all that came back, what of the first was cached."""

    input: int
    output: int
    cached: int


def usage_tokens(usage: Any) -> Usage | None:
    """Read a usage of Anthropic, OpenAI or Gemini; None when it is none of these."""
    told = plain(usage)
    if not isinstance(told, Mapping):
        return None
    if "prompt_tokens" in told:
        return _openai(told, "prompt_tokens", "completion_tokens")
    if "input_tokens_details" in told:
        return _openai(told, "input_tokens", "output_tokens")
    if "input_tokens" in told:
        return _anthropic(told)
    gemini = {_snake(key): value for key, value in told.items()}
    return _gemini(gemini) if "prompt_token_count" in gemini else None


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the estimates of some calls are from what the provider reported."""

    calls: int
    estimated: int
    reported: int

    @property
    def ratio(self) -> float | None:
        """What an estimate must be multiplied by; None when there was nothing to compare."""
        return self.reported / self.estimated if self.estimated else None

    def exceeds(self, ratio: float) -> bool:
        """Whether estimate and report differ by more than this factor, in either direction."""
        larger, smaller = sorted((self.estimated, self.reported), reverse=True)
        return larger > smaller * ratio


def drift(calls: Iterable[tuple[str, int, int]]) -> dict[str, Drift]:
    """The drift of each model, from (model, estimated, reported) of its calls."""
    read: dict[str, Drift] = {}
    for model, estimated, reported in calls:
        so_far = read.get(model, Drift(0, 0, 0))
        read[model] = Drift(
            so_far.calls + 1, so_far.estimated + estimated, so_far.reported + reported
        )
    return read


def _anthropic(told: Mapping[str, Any]) -> Usage:
    """Its input tokens are only those that no cache had or has taken."""
    cached = _tokens(told, "cache_read_input_tokens")
    written = _tokens(told, "cache_creation_input_tokens")
    sent = _tokens(told, "input_tokens") + written + cached
    return Usage(sent, _tokens(told, "output_tokens"), cached)


def _openai(told: Mapping[str, Any], sent: str, received: str) -> Usage:
    details = told.get(f"{sent}_details")
    cached = _tokens(details, "cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(_tokens(told, sent), _tokens(told, received), cached)


def _gemini(told: Mapping[str, Any]) -> Usage:
    sent = _tokens(told, "prompt_token_count") + _tokens(told, "tool_use_prompt_token_count")
    received = _tokens(told, "candidates_token_count") + _tokens(told, "thoughts_token_count")
    return Usage(sent, received, _tokens(told, "cached_content_token_count"))


def _tokens(told: Mapping[str, Any], key: str) -> int:
    value = told.get(key)
    return value if type(value) is int and value > 0 else 0


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)

"""Summaries: the request to a summariser, its answer, and the texts that lists and models see.

A list shows the first prompt of a session that has no title: the beginning of the first message
that a person wrote, with text and without results of tools, so that the large contents of an
agent's loop are not read for it. A rewind does not change it. After a redaction of that message the
next one counts. Agents put texts of their own into the user's messages: then `extra` holds what a
person typed, if the agent or an importer stored it there.

If the model has the recall tools, a summary's last line names the entries that it hides. The next
summariser must not see that line: its range would be wrong, and it would be taken for a fact of the
conversation.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any, Final, TypeAlias

from roocontext.errors import SummaryFailed
from roocontext.log.encoding import decode, whole
from roocontext.log.entries import Range
from roocontext.log.readings import is_known, reader, words_of
from roocontext.log.values import Value

OutgoingMessage: TypeAlias = Mapping[str, Any]
"""A message as it is sent: its role, and its content as text or Anthropic's blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """The messages to summarise, and how.

    `messages` are in order and as the model saw them. `style` names the prompt. `previous` is the
    text of the summary that this one replaces; its valid parts should be kept. `longest` is the
    most tokens that a useful answer may have, and `characters` the approximate number of characters
    in these. `instruction` replaces the last user text of the style, `prompt` its system prompt.
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
class FailedCalls(Value):
    """The calls of a summariser that gave no summary, and their cost. `kind` says how it failed."""

    summariser: str
    kind: str
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


def failed_calls(error: SummaryFailed) -> tuple[FailedCalls, ...]:
    """The cost of a failure, by summariser. Values that are not numbers are left out."""
    if error.attempts:
        return error.attempts
    is_cost = isinstance(error.cost, int | float) and isfinite(error.cost)
    failed = FailedCalls(
        summariser=error.summariser,
        kind=error.kind,
        model=error.model if isinstance(error.model, str) else None,
        calls=_count(error.calls),
        input_tokens=_count(error.input_tokens),
        output_tokens=_count(error.output_tokens),
        cost=error.cost if is_cost else None,
    )
    return (failed,)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Value):
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


def paid_in(calls: FailedCalls | Summary) -> dict[str, Any]:
    """The fields about the cost of calls that a summary and failed calls have in common."""
    names = ("summariser", "model", "calls", "input_tokens", "output_tokens", "cost")
    return {name: getattr(calls, name) for name in names}


def total_cost(paid: Iterable[FailedCalls | Summary]) -> float | None:
    """The sum of the known costs, if there is any."""
    costs = [calls.cost for calls in paid if calls.cost is not None]
    return fsum(costs) if costs else None


LONGEST: Final = 80
"""How many characters of the prompt are kept."""

_READ: Final = 8 * LONGEST
"""How many characters are read: runs of white space are shortened to a space."""
_NO_PERSON: Final = frozenset(
    {"assistant", "model", "system", "developer", "tool", "function"},
)
"""The roles in which no person speaks. Their content need not be read."""
TYPED: Final = "typed_text"
"""The name in a message's `extra` of the text that a person typed; empty if nobody typed any."""


def typed_in(words: str) -> dict[str, Any]:
    """The `extra` of a message in which a person typed these words."""
    return {TYPED: _short(words)}


def prompt_text(
    format_: str | None, role: str | None, content: str | None, extra: str | None
) -> str | None:
    """The beginning of a person's text in a stored message; None if no person wrote it."""
    if role is None or role in _NO_PERSON or content is None or not is_known(format_, role):
        return None
    speaker, blocks = reader(str(format_)).blocks(role, decode(content))
    if speaker != "user":
        return None
    typed = _typed(extra)
    return _short(words_of(blocks) if typed is None else typed) or None


def _typed(extra: str | None) -> str | None:
    # A search in the text first: few messages have it.
    fields = decode(extra) if extra is not None and f'"{TYPED}"' in extra else None
    typed = fields.get(TYPED) if isinstance(fields, dict) else None
    return typed if isinstance(typed, str) else None


def _short(words: str) -> str:
    short = " ".join(words.lstrip()[:_READ].split())[:LONGEST]
    # PostgreSQL stores neither lone surrogates nor NUL.
    return whole(short).replace("\0", "\ufffd").rstrip()


SEARCH_HISTORY: Final = "search_history"
READ_HISTORY: Final = "read_history"
"""The names of the tools."""

_LINE: Final = re.compile(
    r"\[Hidden behind this summary: entries (\d{1,18})-(\d{1,18})\.[^\]\n]*\]\s*\Z"
)


def hidden_line(hidden: Range) -> str:
    """The last line of a summary, which names the hidden entries and the tools that find them."""
    lo, hi = hidden
    return (
        f"[Hidden behind this summary: entries {lo}-{hi}. If a detail is missing here, find it"
        f" with {SEARCH_HISTORY} or {READ_HISTORY}.]"
    )


def hidden_in(text: str) -> Range | None:
    """The range that a summary's last line names, if it has one."""
    line = _LINE.search(text)
    return line and (int(line[1]), int(line[2]))


def without_hidden_line(text: str) -> str:
    """Remove that line from a summary."""
    line = _LINE.search(text)
    return text[: line.start()].rstrip() if line else text

"""How Roo Code of December 2025 condenses: the first message and the last three stay.

A summary by the assistant goes before the three. When the first of them holds results of tools, the
calls that they answer are copied into the summary, so that a provider accepts what is sent. Only
that first message is looked at, and neither what a truncation has hidden nor an older summary's
rows are left out of the count: as in the program.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.log.readings import Block
from roocontext.log.summary import Outgoing, SummaryRequest
from roocontext.programs.roo.history import CONDENSED, Edit, Message, blocks_of, since_summary_2025

KEPT: Final = 3
"""How many messages stay behind the summary."""

INSTRUCTION: Final = "Summarize the conversation so far, as described in the prompt instructions."
"""What the user says last in the request."""

REASONING: Final = (
    "Condensing conversation context. The summary below captures the key information from the"
    " prior conversation."
)
"""The reasoning that each summary begins with, because some providers refuse a message without."""

TOO_FEW: Final = "Not enough messages to condense context"
TOO_SOON: Final = "Context was condensed recently; skipping this attempt"
NO_SUMMARY: Final = "Failed to condense context"
GREW: Final = "Context size increased during condensing; skipping this attempt"

IMAGE: Final = "[Referenced image in conversation]"
"""What a model that reads no images is sent in the place of one."""

Count: TypeAlias = Callable[[list[Block]], int]
"""What blocks cost in one call of the counter."""

# What JavaScript's trim takes away, which is not what Python's strip does.
_SPACE: Final = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A condensation that does not come about, and the program's own words for why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Condensed:
    """A condensation that came about, and what the program says that is left costs."""

    edit: Edit
    summary: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Condensation:
    """What is asked of a model, which messages will be tagged, and what is made of the answer.

    `compose` is given the answer and how many tokens the provider says it has, or 0.
    """

    request: SummaryRequest
    tagged: tuple[int, ...]
    compose: Callable[[str, int], Condensed | Skipped]


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a condensation is told beside the messages.

    `prompt` is the user's own, `images` whether the model reads any. `previous` is what the context
    costs, `tools` what the tool definitions do. What is `held` gets no tag: a pin, which the
    program knows nothing of.
    """

    system: list[Block]
    count: Count
    previous: int
    now: int
    condense_id: str
    tools: int = 0
    prompt: str | None = None
    images: bool = True
    held: frozenset[int] = frozenset()

    @property
    def own_prompt(self) -> str | None:
        """The user's prompt, unless it is blank."""
        return trimmed(self.prompt or "") or None


class Kept(NamedTuple):
    """The messages that stay, and what of the one before them the summary has to hold."""

    messages: list[Message]
    calls: list[Block]
    reasoning: list[Block]


def condensation(
    messages: Sequence[Message], around: Surroundings, *, native_tools: bool
) -> Condensation | Skipped:
    """A condensation of these messages, or why there is none."""
    start = max(len(messages) - KEPT, 0)
    kept = kept_with_calls(messages, KEPT) if native_tools else Kept([*messages[start:]], [], [])
    end = start + 1 if kept.calls else start
    told = since_summary_2025(messages[:end], now=around.now)
    if len(told) <= 1:
        return Skipped(TOO_FEW if len(messages) <= KEPT + 1 else TOO_SOON)
    if any(message.get(CONDENSED.flag) for message in kept.messages):
        return Skipped(TOO_SOON)
    request = SummaryRequest(
        messages=outgoing(told, images=around.images),
        style="roo",
        instruction=INSTRUCTION,
        prompt=around.own_prompt,
    )
    tagged = untagged(messages, range(1, start), around)

    def compose(text: str, tokens: int) -> Condensed | Skipped:
        edit = Edit(CONDENSED, tagged, _summary(kept, trimmed(text), around), start)
        return _accepted(edit, trimmed(text), _cost(kept, edit.row, tokens, around), around)

    return Condensation(request, tagged, compose)


def kept_with_calls(messages: Sequence[Message], count: int) -> Kept:
    """The last messages; if results of tools come first, with the calls before them."""
    start = len(messages) - count
    if start <= 0:
        return Kept([*messages], [], [])
    kept = [*messages[start:]]
    if not (kept and kept[0]["role"] == "user" and _of_type(kept[0], "tool_result")):
        return Kept(kept, [], [])
    before = messages[start - 1]
    calls = _of_type(before, "tool_use") if before["role"] == "assistant" else []
    return Kept(kept, calls, _of_type(before, "reasoning") if calls else [])


def untagged(messages: Sequence[Message], indices: range, around: Surroundings) -> tuple[int, ...]:
    """Those of these that get a tag: no summary stands for them yet."""
    return tuple(
        index
        for index in indices
        if not messages[index].get(CONDENSED.key) and index not in around.held
    )


def outgoing(messages: Sequence[Message], *, images: bool) -> list[Outgoing]:
    """The role and content of messages; without images for a model that reads none."""
    return [
        {"role": one["role"], "content": one["content"] if images else _without_images(one)}
        for one in messages
    ]


def trimmed(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip(_SPACE)


def _summary(kept: Kept, text: str, around: Surroundings) -> Mapping[str, Any]:
    reasoning = {"type": "reasoning", "text": REASONING}
    said = {"type": "text", "text": text}
    first = kept.messages[0].get("ts") if kept.messages else None
    return {
        "role": "assistant",
        "content": [reasoning, *kept.reasoning, said, *kept.calls],
        "ts": (around.now if first is None else first) - 1,
        "isSummary": True,
        "condenseId": around.condense_id,
    }


def _cost(kept: Kept, summary: Message, tokens: int, around: Surroundings) -> int:
    """What is left, by the program's count: the first message is not in it."""
    remaining = [*kept.messages] if tokens else [summary, *kept.messages]
    blocks = [block for message in remaining for block in blocks_of(message)]
    return tokens + around.count([*around.system, *blocks])


def _accepted(edit: Edit, text: str, tokens: int, around: Surroundings) -> Condensed | Skipped:
    if not text:
        return Skipped(NO_SUMMARY)
    return Skipped(GREW) if tokens >= around.previous else Condensed(edit, text, tokens)


def _of_type(message: Message, kind: str) -> list[Block]:
    return [block for block in blocks_of(message) if block.get("type") == kind]


def _without_images(message: Message) -> Any:
    if isinstance(message["content"], str):
        return message["content"]
    shown = {"type": "text", "text": IMAGE}
    return [shown if block.get("type") == "image" else block for block in message["content"]]

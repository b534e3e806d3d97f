"""Roo Code's condensation of December 2025: the first message and the last three stay.

The summary, an assistant message, goes before the last three. If the first of the three holds tool
results, the calls that they answer are copied into the summary, so that a provider accepts the
request. As in the program, only that first message is checked, and rows hidden by a truncation or
an older summary are still counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.log.readings import Block
from roocontext.log.summary import OutgoingMessage, SummaryRequest
from roocontext.programs.roo.history import (
    CONDENSED,
    Edit,
    RooMessage,
    message_blocks,
    since_summary_2025,
)

KEPT: Final = 3
"""The number of messages that stay after the summary."""

INSTRUCTION: Final = "Summarize the conversation so far, as described in the prompt instructions."
"""The last user text of the request."""

REASONING: Final = (
    "Condensing conversation context. The summary below captures the key information from the"
    " prior conversation."
)
"""Each summary begins with this reasoning: some providers refuse messages without any."""

TOO_FEW: Final = "Not enough messages to condense context"
TOO_SOON: Final = "Context was condensed recently; skipping this attempt"
NO_SUMMARY: Final = "Failed to condense context"
GREW: Final = "Context size increased during condensing; skipping this attempt"

IMAGE_TEXT: Final = "[Referenced image in conversation]"
"""Sent in place of an image to a model that reads none."""

Count: TypeAlias = Callable[[list[Block]], int]
"""Counts the tokens of blocks in one call of the counter."""

# JavaScript's trim and Python's strip remove different characters.
_SPACE: Final = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@dataclass(frozen=True, slots=True)
class CondensationSkipped:
    """A condensation that does not happen, with the program's own reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Condensed:
    """A successful condensation, with the program's count of the remaining context."""

    edit: Edit
    summary: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Condensation:
    """The request to a model, the messages that will be tagged, and what to do with the answer.

    `compose` takes the answer and its tokens as the provider reported them, or 0.
    """

    request: SummaryRequest
    tagged: tuple[int, ...]
    compose: Callable[[str, int], Condensed | CondensationSkipped]


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The inputs of a condensation besides the messages.

    `prompt` is the user's own prompt, and `images` is whether the model reads images. `previous` is
    the size of the context, and `tools` that of the tool definitions. Messages in `held` get no
    tag: they are pinned, and the program has no pins.
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
        return strip_space(self.prompt or "") or None


class KeptMessages(NamedTuple):
    """The messages that stay, and the blocks before them that the summary must hold."""

    messages: list[RooMessage]
    calls: list[Block]
    reasoning: list[Block]


def condensation(
    messages: Sequence[RooMessage], around: Surroundings, *, native_tools: bool
) -> Condensation | CondensationSkipped:
    """Plan a condensation of these messages, or say why there is none."""
    start = max(len(messages) - KEPT, 0)
    kept = (
        kept_with_calls(messages, KEPT)
        if native_tools
        else KeptMessages([*messages[start:]], [], [])
    )
    end = start + 1 if kept.calls else start
    relevant = since_summary_2025(messages[:end], now=around.now)
    if len(relevant) <= 1:
        return CondensationSkipped(TOO_FEW if len(messages) <= KEPT + 1 else TOO_SOON)
    if any(message.get(CONDENSED.flag) for message in kept.messages):
        return CondensationSkipped(TOO_SOON)
    request = SummaryRequest(
        messages=role_and_content(relevant, images=around.images),
        style="roo",
        instruction=INSTRUCTION,
        prompt=around.own_prompt,
    )
    tagged = untagged(messages, range(1, start), around)

    def compose(text: str, tokens: int) -> Condensed | CondensationSkipped:
        edit = Edit(CONDENSED, tagged, _summary(kept, strip_space(text), around), start)
        return _accepted(edit, strip_space(text), _cost(kept, edit.row, tokens, around), around)

    return Condensation(request, tagged, compose)


def kept_with_calls(messages: Sequence[RooMessage], count: int) -> KeptMessages:
    """The last messages and, if they begin with tool results, the calls before them."""
    start = len(messages) - count
    if start <= 0:
        return KeptMessages([*messages], [], [])
    last = [*messages[start:]]
    if not (last and last[0]["role"] == "user" and _of_type(last[0], "tool_result")):
        return KeptMessages(last, [], [])
    before = messages[start - 1]
    calls = _of_type(before, "tool_use") if before["role"] == "assistant" else []
    return KeptMessages(last, calls, _of_type(before, "reasoning") if calls else [])


def untagged(
    messages: Sequence[RooMessage], indices: range, around: Surroundings
) -> tuple[int, ...]:
    """The messages that get a tag: those that no summary hides yet."""
    return tuple(
        index
        for index in indices
        if not messages[index].get(CONDENSED.key) and index not in around.held
    )


def role_and_content(messages: Sequence[RooMessage], *, images: bool) -> list[OutgoingMessage]:
    """The role and content of messages, without images if the model reads none."""
    return [
        {"role": one["role"], "content": one["content"] if images else _without_images(one)}
        for one in messages
    ]


def strip_space(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip(_SPACE)


def _summary(kept: KeptMessages, text: str, around: Surroundings) -> Mapping[str, Any]:
    reasoning = {"type": "reasoning", "text": REASONING}
    summary = {"type": "text", "text": text}
    first = kept.messages[0].get("ts") if kept.messages else None
    return {
        "role": "assistant",
        "content": [reasoning, *kept.reasoning, summary, *kept.calls],
        "ts": (around.now if first is None else first) - 1,
        "isSummary": True,
        "condenseId": around.condense_id,
    }


def _cost(kept: KeptMessages, summary: RooMessage, tokens: int, around: Surroundings) -> int:
    """The remaining context by the program's count, which leaves out the first message."""
    # If the provider reported the summary's tokens, the program does not count the summary again.
    remaining = [*kept.messages] if tokens else [summary, *kept.messages]
    blocks = [block for message in remaining for block in message_blocks(message)]
    return tokens + around.count([*around.system, *blocks])


def _accepted(
    edit: Edit, text: str, tokens: int, around: Surroundings
) -> Condensed | CondensationSkipped:
    if not text:
        return CondensationSkipped(NO_SUMMARY)
    return CondensationSkipped(GREW) if tokens >= around.previous else Condensed(edit, text, tokens)


def _of_type(message: RooMessage, kind: str) -> list[Block]:
    return [block for block in message_blocks(message) if block.get("type") == kind]


def _without_images(message: RooMessage) -> Any:
    if isinstance(message["content"], str):
        return message["content"]
    placeholder = {"type": "text", "text": IMAGE_TEXT}
    return [placeholder if block.get("type") == "image" else block for block in message["content"]]

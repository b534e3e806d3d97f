"""Roo Code's condensations of December 2025 and of April 2026.

In 2025 the first message and the last three stay. The summary, an assistant message, goes before
the last three. If the first of the three holds tool results, the calls that they answer are copied
into the summary, so that a provider accepts the request. As in the program, only that first message
is checked, and rows hidden by a truncation or an older summary are still counted.

In 2026 the model sees only the summary, a user message at the end. It contains the commands of the
first message and, if the condensation was automatic, what the editor shows. In the request, tool
calls and results are written as text, because some providers refuse them if no tools are offered.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict
from roocontext.log.summary import OutgoingMessage, SummaryRequest
from roocontext.programs.roo.history import (
    CONDENSED,
    Edit,
    RooMessage,
    message_blocks,
    since_summary_2025,
    since_summary_2026,
)
from roocontext.tokens.javascript import stringify

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


def condensation_2025(
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
        summary = strip_space(text)
        if not summary:
            return CondensationSkipped(NO_SUMMARY)
        reasoning = [{"type": "reasoning", "text": REASONING}, *kept.reasoning]
        content = [*reasoning, {"type": "text", "text": summary}, *kept.calls]
        first = kept.messages[0].get("ts") if kept.messages else None
        ts = (around.now if first is None else first) - 1
        row = _summary("assistant", content, ts, around)
        cost = _cost(kept, row, tokens, around)
        if cost >= around.previous:
            return CondensationSkipped(GREW)
        return Condensed(Edit(CONDENSED, tagged, row, start), summary, cost)

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
        {
            "role": message["role"],
            "content": message["content"] if images else _without_images(message),
        }
        for message in messages
    ]


def strip_space(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip(_SPACE)


def _summary(role: str, content: list[Block], ts: int, around: Surroundings) -> RooMessage:
    made = {"role": role, "content": content, "ts": ts}
    return {**made, CONDENSED.flag: True, CONDENSED.id: around.condense_id}


def _cost(kept: KeptMessages, summary: RooMessage, tokens: int, around: Surroundings) -> int:
    """The remaining context by the program's count, which leaves out the first message."""
    # If the provider reported the summary's tokens, the program does not count the summary again.
    remaining = [*kept.messages] if tokens else [summary, *kept.messages]
    blocks = [block for message in remaining for block in message_blocks(message)]
    return tokens + around.count([*around.system, *blocks])


def _of_type(message: RooMessage, kind: str) -> list[Block]:
    return [block for block in message_blocks(message) if block.get("type") == kind]


def _without_images(message: RooMessage) -> Any:
    if isinstance(message["content"], str):
        return message["content"]
    placeholder = {"type": "text", "text": IMAGE_TEXT}
    return [placeholder if block.get("type") == "image" else block for block in message["content"]]


DEFERRED: Final = "Context condensation triggered. Tool execution deferred."
"""The result that the request gives to a call without one."""

HEADING: Final = "## Conversation Summary\n"

_COMMANDS: Final = (
    "<system-reminder>\n## Active Workflows\n"
    "The following directives must be maintained across all future condensings:\n"
    "{}\n</system-reminder>"
)
_END_OF_COMMAND: Final = "</command>"
_PARTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}\[\],:]|[^"{}\[\],:]+')


def condensation_2026(
    messages: Sequence[RooMessage], around: Surroundings, *, environment: str = ""
) -> Condensation | CondensationSkipped:
    """Plan a condensation of these messages, or say why there is none.

    `environment` is what the editor shows; it is added after the summary.
    """
    relevant = since_summary_2026(messages)
    if len(relevant) <= 1:
        return CondensationSkipped(TOO_FEW if len(messages) <= 1 else TOO_SOON)
    if len(relevant) == 2 and any(message.get(CONDENSED.flag) for message in relevant):
        return CondensationSkipped(TOO_SOON)
    answered = with_deferred_results(relevant, now=around.now)
    request = SummaryRequest(
        messages=[
            {**message, "content": with_tools_as_text(message["content"])}
            for message in role_and_content(answered, images=around.images)
        ],
        style="roo-2026",
        instruction=around.own_prompt,
    )
    tagged = untagged(messages, range(len(messages)), around)

    def compose(text: str, _tokens: int) -> Condensed | CondensationSkipped:
        summary = strip_space(text)
        if not summary:
            return CondensationSkipped(NO_SUMMARY)
        parts = [HEADING + summary]
        if commands := _commands(messages[0]):
            parts.append(_COMMANDS.format(commands))
        if strip_space(environment):
            parts.append(environment)
        last = messages[-1].get("ts")
        ts = (around.now if last is None else last) + 1
        row = _summary("user", [{"type": "text", "text": part} for part in parts], ts, around)
        cost = around.count([*around.system, *row["content"]]) + around.tools
        return Condensed(Edit(CONDENSED, tagged, row, len(messages)), summary, cost)

    return Condensation(request, tagged, compose)


def with_deferred_results(messages: Sequence[RooMessage], *, now: int) -> list[RooMessage]:
    """The messages, and one more with a result for each call that has none."""
    asked = dict.fromkeys(_values(messages, "assistant", "tool_use", "id"))
    answered = set(_values(messages, "user", "tool_result", "tool_use_id"))
    deferred = [
        {"type": "tool_result", "tool_use_id": tool_id, "content": DEFERRED}
        for tool_id in asked
        if tool_id not in answered
    ]
    return [*messages, *([{"role": "user", "content": deferred, "ts": now}] if deferred else [])]


def with_tools_as_text(content: Any) -> Any:
    """A content with tool calls and results written as text."""
    if isinstance(content, str):
        return content
    return [_as_text(block) for block in content]


def _as_text(block: Block) -> Block:
    match block.get("type"):
        case "tool_use":
            return {"type": "text", "text": _call(block)}
        case "tool_result":
            return {"type": "text", "text": _result(block)}
    return block


def _call(block: Block) -> str:
    arguments = block.get("input", "undefined")
    lines = (
        "\n".join(_fields(arguments)) if isinstance(arguments, dict | list) else _printed(arguments)
    )
    return f"[Tool Use: {_printed(block.get('name', 'undefined'))}]\n{lines}"


def _fields(given: Mapping[str, Any] | list[Any]) -> Iterator[str]:
    listed = ((str(index), item) for index, item in enumerate(given))
    fields = given if isinstance(given, Mapping) else dict(listed)
    for key in json.loads(stringify(dict.fromkeys(fields))):  # in JavaScript's order
        yield f"{key}: {_printed(fields[key])}"


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _indented(stringify(value))


def _indented(compact: str) -> str:
    """Format compact JSON over lines, as JavaScript does with an indent of 2."""
    depth = 0
    printed = []
    for part in _PARTS.findall(compact):
        if part in ("}", "]"):
            depth -= 1
            printed.append("\n" + "  " * depth)
        depth += part in ("{", "[")
        printed.append(": " if part == ":" else part)
        if part in ("{", "[", ","):
            printed.append("\n" + "  " * depth)
    return "".join(printed)


def _result(block: Block) -> str:
    title = "[Tool Result (Error)]" if block.get("is_error") else "[Tool Result]"
    content = block.get("content")
    if isinstance(content, str):
        return f"{title}\n{content}"
    if isinstance(content, list):
        return "\n".join([title, *map(_part, map(as_dict, content))])
    return title


def _part(part: Block) -> str:
    match part.get("type"):
        case "text":
            return _printed(part.get("text", "undefined"))
        case "image":
            return "[Image]"
    return f"[{_printed(part.get('type', 'undefined'))}]"


def _values(messages: Sequence[RooMessage], role: str, kind: str, key: str) -> Iterator[str]:
    for message in messages:
        if message["role"] == role:
            yield from (
                b[key]
                for b in message_blocks(message)
                if b.get("type") == kind and isinstance(b.get(key), Hashable) and key in b
            )


def _commands(first: RooMessage) -> str:
    """The commands in the first message, which every summary repeats."""
    texts = (
        str(block.get("text")) for block in message_blocks(first) if block.get("type") == "text"
    )
    return "\n".join(_commands_in("\n".join(texts)))


def _commands_in(text: str) -> Iterator[str]:
    """The elements `<command>`. A pattern would look for each end again from every beginning."""
    end = 0
    while (start := text.find("<command", end)) >= 0:
        opened = text.find(">", start)
        closed = text.find(_END_OF_COMMAND, opened) if opened >= 0 else -1
        if closed < 0:
            return
        end = closed + len(_END_OF_COMMAND)
        yield text[start:end]

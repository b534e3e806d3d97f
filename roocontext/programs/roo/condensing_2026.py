"""Roo Code's condensation of April 2026: the model sees only the summary.

The summary is a user message at the end. It contains the commands of the first message and, if the
condensation was automatic, what the editor shows. In the request, tool calls and results are
written as text, because some providers refuse them if no tools are offered.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roocontext.log.readings import Block
from roocontext.log.summary import SummaryRequest
from roocontext.programs.roo.condensing_2025 import (
    NO_SUMMARY,
    TOO_FEW,
    TOO_SOON,
    Condensation,
    CondensationSkipped,
    Condensed,
    Surroundings,
    role_and_content,
    strip_space,
    untagged,
)
from roocontext.programs.roo.history import (
    CONDENSED,
    Edit,
    RooMessage,
    message_blocks,
    since_summary_2026,
)
from roocontext.tokens.javascript import stringify

DEFERRED: Final = "Context condensation triggered. Tool execution deferred."
"""The result that the request gives to a call without one."""

HEADING: Final = "## Conversation Summary\n"

_COMMANDS: Final = (
    "<system-reminder>\n## Active Workflows\n"
    "The following directives must be maintained across all future condensings:\n"
    "{}\n</system-reminder>"
)
_COMMAND: Final = re.compile(r"<command[^>]*>.*?</command>", re.DOTALL)
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
        row = _summary(messages, summary, around, environment)
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
        return "\n".join([title, *map(_part, content)])
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
                b[key] for b in message_blocks(message) if b.get("type") == kind and key in b
            )


def _summary(
    messages: Sequence[RooMessage], text: str, around: Surroundings, environment: str
) -> Mapping[str, Any]:
    parts = [HEADING + text]
    commands = _commands(messages[0])
    if commands:
        parts.append(_COMMANDS.format(commands))
    if strip_space(environment):
        parts.append(environment)
    last = messages[-1].get("ts")
    return {
        "role": "user",
        "content": [{"type": "text", "text": each} for each in parts],
        "ts": (around.now if last is None else last) + 1,
        "isSummary": True,
        "condenseId": around.condense_id,
    }


def _commands(first: RooMessage) -> str:
    """The commands in the first message, which every summary repeats."""
    texts = (
        str(block.get("text")) for block in message_blocks(first) if block.get("type") == "text"
    )
    return "\n".join(_COMMAND.findall("\n".join(texts)))

"""Gemini CLI's compression as the program runs it: the attempt and how the outcome is judged.

The recorded version is 0.21. Statuses are recorded by name, because their numbers changed later.

Contents: a session as Gemini CLI stores it, which contents it sends, and where it cuts.

A content is a role and parts. Rows of other formats are converted to contents. The program's
decisions here depend on the length of a content's JSON as JavaScript measures it.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.entries import Message
from roocontext.log.readings import Block, gemini, reader
from roocontext.tokens.javascript import stringify, truthy, units

Content: TypeAlias = Block
"""A role, user or model, and parts."""

PRESERVED: Final = 0.3
"""The share of a history, by the length of its JSON, that is kept when the rest is compressed."""

COMPRESSED: Final = 1 - PRESERVED


def content_of(message: Message) -> Content:
    """A row as a content: unchanged, or converted to one."""
    read = reader(message.format)
    if read is gemini.GEMINI:
        content = {"role": message.role, **message.content}
        return {**content, "parts": gemini.parts_of(content)} if content.get("parts") else content
    role, blocks = read.blocks(message.role, message.content)
    return {"role": "model" if role == "assistant" else "user", "parts": [*map(_part, blocks)]}


def text_content(role: str, text: str) -> Content:
    """A content with one text."""
    return {"role": role, "parts": [{"text": text}]}


def content_parts(content: Content) -> list[Any]:
    """The parts, if any."""
    return content.get("parts") or []


def curated(contents: Sequence[Content]) -> list[int]:
    """The indices that are sent. One blank content drops its whole run of model contents."""
    kept: list[int] = []
    for from_model, run in groupby(range(len(contents)), lambda i: _is_model(contents[i])):
        indices = list(run)
        if not from_model or all(_is_valid(contents[index]) for index in indices):
            kept += indices
    return kept


def weights(contents: Sequence[Content]) -> list[int]:
    """The length of each content's JSON in UTF-16 units."""
    return [units(stringify(content)) for content in contents]


def split_point(contents: Sequence[Content], fraction: float = COMPRESSED) -> int:
    """The number of contents at the beginning that make up this fraction, to be compressed.

    The cut is before the first user message, other than a tool response, with at least that
    fraction before it. If there is none and the model spoke last without calling a tool, everything
    is compressed; otherwise, everything before the last user message.
    """
    if not 0 < fraction < 1:
        raise InvalidOption("Fraction must be between 0 and 1", name="fraction")
    lengths = weights(contents)
    target = sum(lengths) * fraction
    before = last = 0
    for index, content in enumerate(contents):
        if content.get("role") == "user" and not _has(content, "functionResponse"):
            if before >= target:
                return index
            last = index
        before += lengths[index]
    if contents and _is_model(contents[-1]) and not _has(contents[-1], "functionCall"):
        return len(contents)
    return last


def _is_model(content: Content) -> bool:
    return content.get("role") == "model"


def _is_valid(content: Content) -> bool:
    parts = content_parts(content)
    return bool(parts) and not any(_is_blank(part) for part in parts)


def _is_blank(part: Any) -> bool:
    return not part or (part.get("text") == "" and not truthy(part.get("thought")))


def _has(content: Content, key: str) -> bool:
    return any(truthy(part.get(key)) for part in content_parts(content))


def _part(block: Block) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "thinking", "thinking": str(text)}:
            return {"text": text, "thought": True}
        case {"type": "tool_use", "id": tool_id, "name": name}:
            return {"functionCall": {"id": tool_id, "name": name, "args": block.get("input")}}
        case {"type": "tool_result", "tool_use_id": tool_id}:
            output = {"output": block.get("content")}
            return {"functionResponse": {"id": tool_id, "response": output}}
        case {"type": "image", "source": {"media_type": str(mime), "data": data}}:
            return {"inlineData": {"mimeType": mime, "data": data}}
    return block


THRESHOLD: Final = 0.5
"""The share of the window at which a history is compressed automatically."""

CROWDED: Final = 0.95
"""The share of the room left by the last prompt that a request may take."""

ACKNOWLEDGEMENT: Final = "Got it. Thanks for the additional context!"
"""The model's reply to the summary, which the program writes itself."""

INSTRUCTION: Final = "First, reason in your scratchpad. Then, generate the <state_snapshot>."
"""The last user text of the request for a summary."""

ALIASES: Final = {
    "gemini-3-pro-preview": "chat-compression-3-pro",
    "gemini-3-flash-preview": "chat-compression-3-flash",
    "gemini-2.5-pro": "chat-compression-2.5-pro",
    "gemini-2.5-flash": "chat-compression-2.5-flash",
    "gemini-2.5-flash-lite": "chat-compression-2.5-flash-lite",
}
"""The program's configured name of the model that summarises for each model."""

DEFAULT_ALIAS: Final = "chat-compression-default"


class CompressionStatus(StrEnum):
    """The outcome of a compression."""

    COMPRESSED = "COMPRESSED"
    INFLATED = "COMPRESSION_FAILED_INFLATED_TOKEN_COUNT"
    COUNT_ERROR = "COMPRESSION_FAILED_TOKEN_COUNT_ERROR"  # declared but never used in 0.21
    EMPTY_SUMMARY = "COMPRESSION_FAILED_EMPTY_SUMMARY"
    NOOP = "NOOP"


class Attempt(NamedTuple):
    """Compress the first `split` contents; 0 means none.

    `tokens` is the count that a NOOP reports. Hooks run (`notifies`) unless the attempt ended
    before the count was compared.
    """

    split: int
    tokens: int
    notifies: bool


def attempt(
    contents: Sequence[Content],
    tokens: int,
    *,
    window: int,
    forced: bool,
    failed: bool,
    threshold: float = THRESHOLD,
    fraction: float = COMPRESSED,
) -> Attempt:
    """Decide on a curated history; `tokens` is the reported size of the last prompt."""
    if not contents or (failed and not forced):
        return Attempt(0, 0, notifies=False)
    if not forced and tokens < threshold * window:
        return Attempt(0, tokens, notifies=True)
    return Attempt(split_point(contents, fraction), tokens, notifies=True)


def compressed(contents: Sequence[Content], split: int, summary: str) -> list[Content]:
    """The history with the summary and the model's reply in place of the first contents."""
    pair = text_content("user", summary), text_content("model", ACKNOWLEDGEMENT)
    return [*pair, *contents[split:]]


def verdict(before: int, after: int) -> CompressionStatus:
    """Judge the sizes before and after; an equal size is not a failure."""
    return CompressionStatus.INFLATED if after > before else CompressionStatus.COMPRESSED


def latch_after(failed: bool, *, forced: bool, status: str) -> bool:  # noqa: FBT001 - the state it turns into the next one
    """True if automatic attempts stop; `failed` says whether they had stopped before this one."""
    if status == CompressionStatus.COMPRESSED:
        return False
    if status in (CompressionStatus.INFLATED, CompressionStatus.EMPTY_SUMMARY):
        return failed or not forced
    return failed


def overflows(request: int, *, window: int, last_prompt: int) -> bool:
    """True if a request takes nearly all the room that the last prompt left, or more."""
    return request > CROWDED * (window - last_prompt)


def alias_for(model: str) -> str:
    """The name of the model that summarises for a model."""
    return ALIASES.get(model, DEFAULT_ALIAS)

"""Contents: a session as Gemini CLI stores it, which contents it sends, and where it cuts.

A content is a role and parts. Rows of other formats are converted to contents. The program's
decisions here depend on the length of a content's JSON as JavaScript measures it.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

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
    """How many contents at the beginning to compress so that this fraction is removed.

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

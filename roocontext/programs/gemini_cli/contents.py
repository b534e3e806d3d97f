"""Contents: a session as Gemini CLI keeps it, which of them it sends, and where it cuts them.

A content is a role and parts. Rows of other formats are shown as the contents they would be. What
the program decides here depends on how long JavaScript says that a content's JSON is.
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
"""How much of a history, by the length of its JSON, is kept when the rest is compressed."""

COMPRESSED: Final = 1 - PRESERVED


def content_of(message: Message) -> Content:
    """A row as a content: as it is, or as what it would be for Gemini."""
    read = reader(message.format)
    if read is gemini.GEMINI:
        content = {"role": message.role, **message.content}
        return {**content, "parts": gemini.parts_of(content)} if content.get("parts") else content
    role, blocks = read.blocks(message.role, message.content)
    return {"role": "model" if role == "assistant" else "user", "parts": [*map(_part, blocks)]}


def text_content(role: str, text: str) -> Content:
    """A content that only says something."""
    return {"role": role, "parts": [{"text": text}]}


def parts_of(content: Content) -> list[Any]:
    """The parts, if any."""
    return content.get("parts") or []


def curated(contents: Sequence[Content]) -> list[int]:
    """The indices of what is sent: a run of the model's answers goes as a whole if one is blank."""
    kept: list[int] = []
    for from_model, run in groupby(range(len(contents)), lambda i: _is_model(contents[i])):
        indices = list(run)
        if not from_model or all(_is_valid(contents[index]) for index in indices):
            kept += indices
    return kept


def weights(contents: Sequence[Content]) -> list[int]:
    """How long each one's JSON is, in UTF-16 units."""
    return [units(stringify(content)) for content in contents]


def split_point(contents: Sequence[Content], fraction: float = COMPRESSED) -> int:
    """How many contents, from the first on, are to be compressed to take away that fraction.

    The cut is before a message of the user that is no tool's response: the first one with at least
    that fraction before it. Without one everything goes if the model spoke last and calls no tool;
    else all before the last message of the user.
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
    parts = parts_of(content)
    return bool(parts) and not any(_is_blank(part) for part in parts)


def _is_blank(part: Any) -> bool:
    return not part or (part.get("text") == "" and not truthy(part.get("thought")))


def _has(content: Content, key: str) -> bool:
    return any(truthy(part.get(key)) for part in parts_of(content))


def _part(block: Block) -> Block:
    match block:
        case {"type": "text", "text": str(said)}:
            return {"text": said}
        case {"type": "thinking", "thinking": str(said)}:
            return {"text": said, "thought": True}
        case {"type": "tool_use", "id": tool_id, "name": name}:
            return {"functionCall": {"id": tool_id, "name": name, "args": block.get("input")}}
        case {"type": "tool_result", "tool_use_id": tool_id}:
            output = {"output": block.get("content")}
            return {"functionResponse": {"id": tool_id, "response": output}}
        case {"type": "image", "source": {"media_type": str(mime), "data": data}}:
            return {"inlineData": {"mimeType": mime, "data": data}}
    return block

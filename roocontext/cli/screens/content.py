"""The blocks of a message as lines to read, cut so that 10 MB are no more than a screen."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from roocontext.cli.screens.safe_text import UNICODE, Signs, one_line, plain
from roocontext.log.readings import Block, reader, text_of
from roocontext.reports.words import counted

LINES = 12
CHARACTERS = 1_200
"""How much of one block is shown without --full."""


class Part(NamedTuple):
    """A block of a message: its kind, a heading, and its text."""

    kind: str
    heading: str
    text: str


def parts(role: str, content: Any, form: str, signs: Signs = UNICODE) -> Iterator[Part]:
    """The blocks of a message, in any format."""
    _, blocks = reader(form).blocks(role, content)
    for block in blocks:
        yield _part(block, signs)


def preview(role: str, content: Any, form: str, signs: Signs = UNICODE) -> str:
    """A message in one line."""
    lines = (
        one_line(f"{part.heading} {part.text[:2_000]}")
        for part in parts(role, content, form, signs)
    )
    return " | ".join(lines)[:600]


def readable(text: str, *, full: bool) -> tuple[str, str]:
    """The part of a text that is shown, and a line about the rest, if there is any."""
    if full:
        return plain(text), ""
    lines = text[:CHARACTERS].split("\n", LINES)
    shown = "\n".join(lines[:LINES])
    left = len(text) - len(shown)
    if left <= 0:
        return plain(shown), ""
    return plain(shown), f"{counted(left, 'more character')}: --full shows them"


def _part(block: Block, signs: Signs) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Part("text", "", text)
        case {"type": "tool_use", "name": str(name)}:
            return Part("call", f"{signs.call} {one_line(name)}", _arguments(block.get("input")))
        case {"type": "tool_result"}:
            failed = " (error)" if block.get("is_error") is True else ""
            return Part("result", f"{signs.result}{failed}", text_of([block]) or _beside(block))
        case {"type": "thinking", "thinking": str(text)}:
            return Part("thinking", "(thinking)", text)
        case {"type": "image"}:
            return Part("image", _image(block.get("source")), "")
    kind = block.get("type")
    return Part("other", f"[{one_line(str(kind), longest=40)}]", _compact(block))


def _arguments(given: Any) -> str:
    """The arguments of a call: names and values if they are simple, else JSON."""
    if isinstance(given, dict) and all(isinstance(value, str | int) for value in given.values()):
        return ", ".join(f"{name}={_value(value)}" for name, value in given.items())
    return _compact(given)


def _value(value: str | int) -> str:
    if isinstance(value, str) and value and " " not in value and "\n" not in value:
        return value
    return _compact(value)


def _beside(block: Block) -> str:
    """What a result without text holds."""
    inside = block.get("content")
    kinds = (
        [_image(one.get("source")) for one in inside if isinstance(one, dict)]
        if isinstance(inside, list)
        else []
    )
    return " ".join(kinds) or "(empty)"


def _image(source: Any) -> str:
    match source:
        case {"media_type": str(kind), "data": str(data)}:
            return f"[{one_line(kind, longest=40)}, {counted(len(data), 'character')}]"
        case {"url": str(url)}:
            return f"[image {one_line(url, longest=200)}]"
    return "[image]"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))

"""The blocks of a message as lines to read, cut so that 10 MB take no more than a screen."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from roocontext.cli.screens.safe_text import UNICODE_SIGNS, Signs, one_line, safe
from roocontext.log.readings import Holds, Piece, pieces, reader, walk
from roocontext.reports.naming import quantity, size

LINES = 12
CHARACTERS = 1_200
"""How much of a block is shown without --full."""

_LONGEST_NAME = 60


class BlockText(msgspec.Struct, frozen=True):
    """A block of a message as it is shown: a heading, if it needs one, and its text."""

    kind: Holds
    heading: str
    text: str


def block_texts(
    role: str, content: Any, form: str, signs: Signs = UNICODE_SIGNS, tools: Sequence[str] = ()
) -> Iterator[BlockText]:
    """The blocks of a message of any format. `tools` names the tools of its outputs, in order."""
    _, blocks = reader(form).blocks(role, content)
    names = iter(tools)
    for piece in pieces(blocks):
        heading, text = _shown(piece, signs)
        if piece.kind is Holds.OUTPUT:
            heading = " ".join((heading, *_measured(next(names, ""), piece)))
        yield BlockText(piece.kind, heading, text)


def one_line_of(
    role: str, content: Any, form: str, signs: Signs = UNICODE_SIGNS, tools: Sequence[str] = ()
) -> str:
    """A message in one line."""
    lines = (
        one_line(f"{block.heading} {block.text[:2_000]}")
        for block in block_texts(role, content, form, signs, tools)
    )
    return " | ".join(lines)[:600]


def readable(text: str, *, full: bool = False, whole: str = "--full") -> tuple[str, str]:
    """The part of a text that is shown, and a line about the rest, if there is any.

    `whole` is the option or the command that shows the whole text.
    """
    if full:
        return safe(text), ""
    lines = text[:CHARACTERS].split("\n", LINES)
    few = "\n".join(lines[:LINES])
    left = len(text) - len(few)
    if left <= 0:
        return safe(few), ""
    return safe(few), f"{quantity(left, 'more character')}{whole and f': {whole} shows them'}"


def _shown(piece: Piece, signs: Signs) -> tuple[str, str]:
    """The heading and the text of a block."""
    match piece.kind:
        case Holds.TEXT:
            return "", piece.text or ""
        case Holds.CALL if piece.text is not None:
            return f"{signs.call} {one_line(piece.text)}", _arguments(piece.block.get("input"))
        case Holds.OUTPUT:
            failed = " (error)" if piece.block.get("is_error") is True else ""
            return f"{signs.result}{failed}", _output(piece, signs)
        case Holds.THINKING if piece.text is not None:
            return "(thinking)", piece.text
        case Holds.MEDIA:
            return _media(piece.block), ""
    kind = piece.block.get("type") if isinstance(piece.block, dict) else None
    return f"[{one_line(str(kind), longest=40)}]", _compact(piece.block)


def _measured(tool: str, output: Piece) -> Iterator[str]:
    """The tool of an output, if it is known, and the size of its text, if it has any."""
    if tool:
        yield one_line(tool, longest=_LONGEST_NAME)
    if text := _text_of(output):
        yield f"({size(len(text.encode('utf-8', 'surrogatepass')))})"


def _output(output: Piece, signs: Signs) -> str:
    """The texts of a tool's output, or the headings of its other blocks."""
    if text := _text_of(output):
        return text
    inside = walk(output.inside)
    headings = (_shown(piece, signs)[0] for piece in inside if piece.kind is not Holds.OUTPUT)
    return " ".join(filter(None, headings)) or "(empty)"


def _text_of(output: Piece) -> str:
    """All texts in a tool's output; an empty text if all of them are empty."""
    texts = [piece.text or "" for piece in walk(output.inside) if piece.kind is Holds.TEXT]
    return "\n".join(texts) if any(texts) else ""


def _arguments(call: Any) -> str:
    """The arguments of a call: names and values if they are simple, else JSON."""
    if isinstance(call, dict) and all(isinstance(value, str | int) for value in call.values()):
        return ", ".join(f"{name}={_value(value)}" for name, value in call.items())
    return _compact(call)


def _value(value: str | int) -> str:
    if isinstance(value, str) and value and " " not in value and "\n" not in value:
        return value
    return _compact(value)


def _media(block: Any) -> str:
    """An image or a file: its type and size, or its URL."""
    match block.get("source"):
        case {"media_type": str(kind), "data": str(data)}:
            return f"[{one_line(kind, longest=40)}, {quantity(len(data), 'character')}]"
        case {"url": str(url)}:
            return f"[{block['type']} {one_line(url, longest=200)}]"
    return f"[{block['type']}]"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))

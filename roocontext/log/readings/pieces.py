"""The pieces of a message: the only walk over texts, calls, outputs and media.

Code that needs the text of a message walks over its pieces and selects some of them. Every block
becomes a piece, so nothing is left out by accident.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from roocontext.log.readings.blocks import Block


class Holds(Enum):
    """The kind of a piece."""

    TEXT = auto()
    THINKING = auto()
    CALL = auto()
    OUTPUT = auto()
    MEDIA = auto()
    OTHER = auto()


_KINDS: Final = {
    **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), Holds.CALL),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), Holds.THINKING),
    **dict.fromkeys(("image", "document", "audio", "video", "file"), Holds.MEDIA),
    **dict.fromkeys(("text", "compaction"), Holds.TEXT),
    "tool_result": Holds.OUTPUT,
}

_TEXTS: Final = {Holds.TEXT: "text", Holds.THINKING: "thinking", Holds.CALL: "name"}
_TEXT_OF: Final = {"compaction": "content"}
"""Types whose text is in another field than that of their kind."""


class Piece(NamedTuple):
    """A block of a message, or a part of a tool's output.

    `text` is the text, the thought or the name of the called tool, or None. A call's input is in
    its `block`. An output contains pieces of its own.
    """

    kind: Holds
    block: Any
    text: str | None = None
    inside: "tuple[Piece, ...]" = ()


def pieces(blocks: Iterable[Block]) -> list[Piece]:
    """Show each block as a piece."""
    return [_piece(block) for block in blocks]


def walk(message: Iterable[Piece]) -> Iterator[Piece]:
    """Walk over the pieces of a message in order; the pieces inside an output follow it."""
    for piece in message:
        yield piece
        if piece.inside:
            yield from walk(piece.inside)


def text_of(blocks: Iterable[Block]) -> str:
    """Join all readable text, tool outputs included."""
    return _joined(walk(pieces(blocks)))


def words_of(blocks: Iterable[Block]) -> str:
    """Join the texts, without the outputs of tools."""
    return _joined(pieces(blocks))


def _joined(read: Iterable[Piece]) -> str:
    return "\n".join(piece.text or "" for piece in read if piece.kind is Holds.TEXT)


def _piece(block: Any) -> Piece:
    kind = block.get("type") if isinstance(block, dict) else None
    holds = _KINDS.get(kind, Holds.OTHER) if isinstance(kind, str) else Holds.OTHER
    if holds is Holds.OUTPUT:
        content = block.get("content")
        if isinstance(content, list):
            # One frame of Python's stack for each level: contents may be 500 levels deep.
            return Piece(holds, block, None, tuple(map(_piece, content)))
        if isinstance(content, str):
            return Piece(holds, block, None, (Piece(Holds.TEXT, content, content),))
        return Piece(holds, block, None, () if content is None else (Piece(Holds.OTHER, content),))
    text = block.get(_TEXT_OF.get(str(kind), _TEXTS[holds])) if holds in _TEXTS else None
    if not isinstance(text, str):
        return Piece(Holds.OTHER if holds is Holds.TEXT else holds, block)
    return Piece(holds, block, text)

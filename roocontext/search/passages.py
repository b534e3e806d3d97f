"""The text of a message that can be searched: words, and the inputs and outputs of tools."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from roocontext.log.readings import Block, Holds, Piece, pieces, reader, walk

Speaker: TypeAlias = Literal["user", "assistant", "tool"]
_OPAQUE: Final = 256
"""A word of this length in data of an unknown kind is encoded: nobody searches for it."""


@dataclass(frozen=True)
class Wanted:
    """Which passages of a message are searched: of this speaker, and of this tool.

    The tool's name is in a call. `name_of` finds it for the id of a result.
    """

    speaker: str | None = None
    tool: str | None = None
    name_of: Callable[[str], str | None] = field(default=lambda _id: None, compare=False)


def passages(format_: str, role: str, content: Any, wanted: Wanted = Wanted()) -> str:
    """The wanted passages of a message as one text."""
    speaker, blocks = reader(format_).blocks(role, content)
    found: list[str] = []
    for piece in pieces(blocks):
        by = "tool" if piece.kind is Holds.OUTPUT else speaker
        if wanted.speaker in (None, by) and _is_of_tool(piece, wanted):
            # Most pieces are texts, which need no walk.
            found.extend([piece.text or ""] if piece.kind is Holds.TEXT else _texts(piece))
    return "\n".join(found)


def speaker_of(format_: str, role: str, content: Any) -> str:
    """The role of a message, or `tool` if it holds nothing but outputs of tools."""
    if isinstance(content, str):
        return role
    kinds = {piece.kind for piece in pieces(reader(format_).blocks(role, content)[1])}
    return "tool" if kinds == {Holds.OUTPUT} else role


def call_names(blocks: Iterable[Block]) -> Mapping[str, str]:
    """The names of the tools that these blocks call, by the id of the call."""
    return {
        piece.block["id"]: piece.text
        for piece in pieces(blocks)
        if piece.kind is Holds.CALL and piece.text and isinstance(piece.block.get("id"), str)
    }


def _is_of_tool(piece: Piece, wanted: Wanted) -> bool:
    if wanted.tool is None:
        return True
    if piece.kind is Holds.CALL:
        return piece.text == wanted.tool
    if piece.kind is Holds.OUTPUT:
        own = piece.block.get("tool_use_id")
        return isinstance(own, str) and wanted.name_of(own) == wanted.tool
    return False


def _texts(piece: Piece) -> Iterator[str]:
    for one in walk([piece]):
        if one.text is not None:
            yield one.text
        if one.kind is Holds.CALL:
            yield from _leaves(one.block.get("input"))
        elif one.kind is Holds.OTHER:
            yield from (leaf for leaf in _leaves(one.block) if not _is_opaque(leaf))
        # Not of a `file`: its title is the reader's own, and in no stored content.
        elif one.kind is Holds.MEDIA and one.block["type"] == "document":
            title = one.block.get("title")
            if isinstance(title, str):
                yield title


def _leaves(value: Any, name: str = "") -> Iterator[str]:
    """Each value of some JSON on a line of its own, behind its name."""
    # A stack of its own: inputs may be nested as deeply as Python's own.
    left = [(name, value)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left.extend((key, value[key]) for key in reversed(value))
        elif isinstance(value, list):
            left.extend((name, item) for item in reversed(value))
        else:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield f"{name}: {shown}" if name else shown


def _is_opaque(leaf: str) -> bool:
    return len(leaf) > _OPAQUE and max(map(len, leaf.split())) > _OPAQUE

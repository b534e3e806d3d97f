"""The text of a message that can be searched: words, and the inputs and outputs of tools.

A snippet is the stretch of that text with the most hits, which are marked.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import msgspec

from roocontext.log.readings import Block, Holds, Piece, pieces, reader, walk
from roocontext.log.values import Value
from roocontext.search.match import Stretch

Speaker: TypeAlias = Literal["user", "assistant", "tool"]
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=_-]{257,}")
"""So long a word in data of an unknown kind is encoded: nobody searches for it."""


@dataclass(frozen=True)
class WantedPassages:
    """The passages of a message that are searched: of this speaker, and of this tool.

    The tool's name is in a call. `name_of` finds it for the id of a result.
    """

    speaker: str | None = None
    tool: str | None = None
    name_of: Callable[[str], str | None] = field(default=lambda _id: None, compare=False)


def passages(
    format_: str, role: str, content: Any, wanted: WantedPassages = WantedPassages()
) -> str:
    """The wanted passages of a message as one text."""
    speaker, blocks = reader(format_).blocks(role, content)
    texts: list[str] = []
    for piece in pieces(blocks):
        by = "tool" if piece.kind is Holds.OUTPUT else speaker
        if wanted.speaker in (None, by) and _is_of_tool(piece, wanted):
            # Most pieces are texts, which need no walk.
            texts.extend([piece.text or ""] if piece.kind is Holds.TEXT else _texts(piece))
    return "\n".join(texts)


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


def _is_of_tool(piece: Piece, wanted: WantedPassages) -> bool:
    if wanted.tool is None:
        return True
    if piece.kind is Holds.CALL:
        return piece.text == wanted.tool
    if piece.kind is Holds.OUTPUT:
        own = piece.block.get("tool_use_id")
        return isinstance(own, str) and wanted.name_of(own) == wanted.tool
    return False


def _texts(piece: Piece) -> Iterator[str]:
    for part in walk([piece]):
        if part.text is not None:
            yield part.text
        if part.kind is Holds.CALL:
            yield from _leaves(part.block.get("input"))
        elif part.kind is Holds.OTHER:
            yield from (_ENCODED.sub("", leaf) for leaf in _leaves(part.block))
        # Not of a `file`: its title is the reader's own, and in no stored content.
        elif part.kind is Holds.MEDIA and part.block["type"] == "document":
            yield from _of_document(part.block)


def _of_document(document: Block) -> Iterator[str]:
    yield from (text for key in ("title", "context") if isinstance(text := document.get(key), str))
    match document.get("source"):
        case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)}:
            yield text
        case {"type": "content", "content": [*parts]}:
            for piece in pieces(parts):
                yield from _texts(piece)


def _leaves(value: Any) -> Iterator[str]:
    """Each value of some JSON on a line of its own, after its name; of an object the name alone."""
    # A stack of its own: inputs may be nested as deeply as Python's own.
    left = [("", value)]
    while left:
        name, value = left.pop()
        if name and (value == [] or isinstance(value, dict)):
            yield name
        if isinstance(value, dict):
            left.extend((key, value[key]) for key in reversed(value))
        elif isinstance(value, list):
            left.extend((name, item) for item in reversed(value))
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            yield f"{name}: {text}" if name else text


WIDTH: Final = 200
"""The characters that are shown, without lines of context."""
_BEFORE: Final = 40
_CONTEXT_LINE: Final = 400


class Snippet(msgspec.Struct, Value, frozen=True):
    """A part of a message's text. `marks` are the offsets in it where each hit begins and ends.

    The text may be continued at either side.
    """

    text: str
    marks: tuple[Stretch, ...]
    is_continued: bool
    continues: bool


def snippet(text: str, found: Sequence[Sequence[Stretch]], *, context: int = 0) -> Snippet:
    """The part of the text with the most hits, and lines of context around it."""
    stretches = _apart(sorted({stretch for places in found for stretch in places}))
    first = _densest(stretches)
    lo = _start(text, first[0])
    hi = min(len(text), max(lo + WIDTH, first[1]))
    for _ in range(context):
        if lo == 0 and hi == len(text):
            break
        lo = max(text.rfind("\n", 0, max(0, lo - 1)) + 1, lo - _CONTEXT_LINE, 0)
        end = text.find("\n", hi + 1)
        hi = min(len(text) if end < 0 else end, hi + _CONTEXT_LINE)
    marks = tuple((a - lo, min(b, hi) - lo) for a, b in stretches if lo <= a < hi)
    return Snippet(text[lo:hi], marks, lo > 0, hi < len(text))


def _apart(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches, those that overlap as one: whoever shows marks writes each character once."""
    apart: list[Stretch] = []
    for lo, hi in stretches:
        if apart and lo < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(hi, apart[-1][1]))
        else:
            apart.append((lo, hi))
    return apart


def _densest(stretches: Sequence[Stretch]) -> Stretch:
    """The hit that begins the stretch with the most hits."""
    best, most, last = stretches[0], 0, 0
    for first, stretch in enumerate(stretches):
        while last < len(stretches) and stretches[last][1] <= stretch[0] + WIDTH - _BEFORE:
            last += 1
        if last - first > most:
            best, most = stretch, last - first
    return best


def _start(text: str, at: int) -> int:
    """The start of a snippet that shows this offset: at a line or a word, if one is near."""
    lo = max(0, at - _BEFORE)
    if lo == 0:
        return 0
    line = text.rfind("\n", lo, at)
    space = text.find(" ", lo, at)
    return line + 1 if line >= 0 else space + 1 if space >= 0 else lo

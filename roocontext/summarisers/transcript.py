"""Messages as plain text for a person or a model: speech, tool calls and their results.

Every block except thinking is shown by at least one line. Long arguments and outputs are cut in the
middle; the words of people and models are never cut. No JSON makes this module fail.

Texts are shortened to a weight, where no tokeniser is available: a token is three ASCII characters,
or three quarters of a character of any other script. Prose and code have more characters to a
token; long digests and emoji have fewer. Cuts fall between characters, and the text that replaces
the cut says how many characters were left out.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roocontext.log.encoding import whole
from roocontext.log.pairs import pairs
from roocontext.log.readings import Block, Holds, Piece, RoleAndBlocks, pieces, reader
from roocontext.log.summary import OutgoingMessage

TOKEN: Final = 3
"""The weight of a token. An ASCII character weighs 1."""

_OTHER: Final = 4
"""The weight of any other character."""

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def weight(text: str) -> int:
    """The weight of a text."""
    if text.isascii():
        return len(text)
    return _OTHER * len(text) - (_OTHER - 1) * len(text.encode("ascii", "ignore"))


def clean(text: str) -> str:
    """Remove control characters and escape lone surrogates, so that the text can be sent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub("", whole(text))


def shorten(text: str, room: int) -> str:
    """Cut out the middle so that the text weighs at most `room`, and say how much is missing."""
    if weight(text) <= room:
        return text
    left = room - weight(_gap(len(text)))
    if left < weight(_gap(len(text))):
        return f"{first(text, room - 3)}..." if room > 3 else first(text, room)
    head, tail = first(text, left * 2 // 3), last(text, left // 3)
    return f"{head}{_gap(len(text) - len(head) - len(tail))}{tail}"


def shorten_line(text: str, room: int) -> str:
    """Put a text on one line and cut its end if it is too long."""
    flat = " ".join(text.split())
    return flat if weight(flat) <= room else first(flat, room - 3).rstrip() + "..."


def first(text: str, room: int) -> str:
    """The longest beginning that weighs at most `room`."""
    return text[: _reach(text[:room], room)] if room > 0 else ""


def last(text: str, room: int) -> str:
    """The longest end that weighs at most `room`."""
    reach = _reach(text[-room:][::-1], room) if room > 0 else 0
    return text[len(text) - reach :]


def _reach(text: str, room: int) -> int:
    """The number of characters at the beginning that weigh at most `room` together."""
    if text.isascii():
        return min(len(text), room)
    for index, character in enumerate(text):
        room -= 1 if character.isascii() else _OTHER
        if room < 0:
            return index
    return len(text)


def _gap(characters: int) -> str:
    return f"\n[... {characters:,} characters left out ...]\n"


ARGUMENT: Final = 1_000
"""The most that is shown of one argument of a call, as a weight of `shorten`."""

OUTPUT: Final = 2_000
"""The most that is shown of a tool's output."""


def transcript(messages: Sequence[OutgoingMessage]) -> list[str]:
    """One text for each message that has anything to show."""
    read = readings(messages)
    names = called(read)
    texts = (_message(role, blocks, index, names) for index, (role, blocks) in enumerate(read))
    return [text for text in texts if text]


def readings(messages: Sequence[OutgoingMessage]) -> list[RoleAndBlocks]:
    """The role and blocks of each message."""
    show = reader("anthropic").blocks
    return [show(str(message.get("role")), message.get("content")) for message in messages]


def called(read: Sequence[RoleAndBlocks]) -> dict[tuple[int, int], str]:
    """The name of the tool that gave each result, by the result's (message, block)."""
    return {
        pair.result: str(read[pair.call[0]][1][pair.call[1]].get("name")) for pair in pairs(read)
    }


def output_of(result: Block) -> str:
    """The output of a tool, as text."""
    return _output(*pieces([result]))


def as_text(value: Any) -> str:
    """Any JSON as text: a string unchanged, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    except (ValueError, RecursionError):
        return f"[{type(value).__name__} that cannot be written out]"


def _message(
    role: str, blocks: Sequence[Block], index: int, names: Mapping[tuple[int, int], str]
) -> str:
    texts = (
        clean(text)
        for place, piece in enumerate(pieces(blocks))
        for text in _piece(piece, names.get((index, place)))
    )
    visible = [text for text in texts if text.strip()]
    return "\n".join([f"[{role}]", *visible]) if visible else ""


def _piece(piece: Piece, tool: str | None = None) -> Iterator[str]:
    match piece.kind:
        case Holds.TEXT:
            yield piece.text or ""
        case Holds.CALL:
            yield f"[called {as_text(piece.block.get('name', 'a tool'))}]"
            yield from _arguments(piece.block.get("input"))
        case Holds.OUTPUT:
            of = f" of {tool}" if tool else ""
            yield f"[{'error' if piece.block.get('is_error') is True else 'result'}{of}]"
            yield shorten(_output(piece), OUTPUT)
        case Holds.MEDIA:
            yield _media(piece.block)
        case Holds.OTHER:
            yield from _unknown(piece.block)


def _output(piece: Piece) -> str:
    """The output of a tool. Calls and results inside it are written as JSON: nesting has no end."""
    return "\n".join(
        _media(part.block)
        if part.kind is Holds.MEDIA
        else part.text
        if part.kind is Holds.TEXT and part.text is not None
        else as_text(part.block)
        for part in piece.inside
    )


def _arguments(arguments: Any) -> Iterator[str]:
    if not isinstance(arguments, dict):
        yield shorten(as_text(arguments), ARGUMENT)
        return
    for key, value in arguments.items():
        yield f"{key}: {shorten(as_text(value), ARGUMENT)}"


def _media(block: Block) -> str:
    kind = block["type"]
    title = next((block[key] for key in ("title", "name") if isinstance(block.get(key), str)), None)
    return f"[{kind}]" if title is None else f"[{kind} {title}]"


def _unknown(block: Block) -> Iterator[str]:
    yield f"[{as_text(block.get('type', 'block'))}]"
    text = next(
        (block[key] for key in ("text", "content") if isinstance(block.get(key), str)), None
    )
    rest = {key: value for key, value in block.items() if key != "type"}
    yield shorten(as_text(rest) if text is None else text, OUTPUT)

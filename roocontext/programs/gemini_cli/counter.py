"""Gemini CLI's estimate of parts: 0.25 per ASCII character, 1.3 per other character, rounded down.

The program adds doubles one by one, and the rounding errors are part of its result: 1,000 kanji are
1,299 tokens. So this code must not multiply instead, or use `sum`, which compensates such errors on
newer Pythons.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Final

from roocontext.log.readings import Block, reader
from roocontext.log.readings.blocks import dicts
from roocontext.log.readings.gemini import GEMINI, parts_of
from roocontext.tokens.builtin import always
from roocontext.tokens.javascript import code_points, stringify, units

ASCII: Final = 0.25
OTHER: Final = 1.3
OTHER_0_61: Final = 1.5
IMAGE_0_61: Final = 3_000
PDF_0_61: Final = 25_800
LONG_TEXT_0_61: Final = 100_000
DEEPEST_0_61: Final = 3


def estimate(parts: Sequence[Block]) -> int:
    """The tokens of parts, as version 0.21 estimates them."""
    total = 0.0
    for part in parts:
        text = part.get("text")
        if isinstance(text, str):
            total = _add(total, code_points(text), OTHER)
        else:
            total += units(stringify(part)) / 4
    return floor(total)


def estimate_0_61(parts: Sequence[Block], depth: int = 0) -> int:
    """The tokens of parts, as version 0.61 estimates them."""
    if depth > DEEPEST_0_61:
        return 0
    total = 0.0
    for part in parts:
        total += _part_0_61(part, depth)
    return floor(total)


@dataclass(frozen=True, slots=True)
class GeminiCounter:
    """Counts a message of any format as the Gemini parts that it corresponds to."""

    name: str
    estimate: Callable[[Sequence[Block]], int]
    exact: bool = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message."""
        return self.estimate([*_parts(role, content, format)])


def _add(total: float, text: str, other: float) -> float:
    if text.isascii() and (total * 4).is_integer():
        return total + ASCII * len(text)  # exact: doubles represent quarters exactly
    for character in text:
        total += ASCII if character <= "\x7f" else other
    return total


def _part_0_61(part: Block, depth: int) -> float:
    text = part.get("text")
    if isinstance(text, str):
        return _text_0_61(text)
    if part.get("functionResponse"):
        return _response_0_61(part["functionResponse"], depth)
    media = _media_0_61(part)
    return units(stringify(part)) / 4 if media is None else media


def _text_0_61(text: str) -> float:
    length = units(text)
    if length > LONG_TEXT_0_61:
        return length / 4
    joined = code_points(text)
    return _add(0.0, "".join(c * 2 if c > "\uffff" else c for c in joined), OTHER_0_61)


def _response_0_61(response: Any, depth: int) -> float:
    if not isinstance(response, dict):
        return 0
    name = response.get("name")
    total = units(name) / 4 if isinstance(name, str) else 0.0
    output = response.get("response")
    if isinstance(output, str):
        total += units(output) / 4
    elif output is not None:
        total += units(stringify(output)) / 4
    return total + estimate_0_61(dicts(response.get("parts")), depth + 1)


def _media_0_61(part: Block) -> int | None:
    for key in ("inlineData", "fileData"):
        media = part.get(key)
        mime = media.get("mimeType") if isinstance(media, dict) else None
        if isinstance(mime, str) and mime:
            if mime.startswith("image/"):
                return IMAGE_0_61
            return PDF_0_61 if mime.startswith("application/pdf") else None
    return None


def _parts(role: str, content: Any, format: str) -> Iterator[Block]:  # noqa: A002 - the log's word
    read = reader(format)
    if read is GEMINI:
        yield from parts_of(content)
        return
    for block in read.blocks(role, content)[1]:
        match block:
            case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                yield {"text": text}
            case {"type": "tool_use"}:
                call = {"name": block.get("name"), "args": block.get("input")}
                yield {"functionCall": call}
            case {"type": "tool_result"}:
                response = {"output": block.get("content")}
                yield {"functionResponse": {"response": response}}
            case {"type": "image", "source": {"media_type": str(mime), "data": data}}:
                yield {"inlineData": {"mimeType": mime, "data": data}}
            case _:
                yield block


counter = always(GeminiCounter("gemini", estimate))
counter_0_61 = always(GeminiCounter("gemini-0.61", estimate_0_61))

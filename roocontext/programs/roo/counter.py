"""Roo Code's count of content blocks: o200k_base, half as much again, rounded up once.

It is reproduced as it is: reasoning costs nothing, an image the square root of its base64 length.
"""

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any, ClassVar

from roocontext.log.readings import Block, reader
from roocontext.tokens.bpe import O200K
from roocontext.tokens.builtin import always
from roocontext.tokens.javascript import stringify, units

IMAGE_BY_URL = 300


def roo_tokens(blocks: Sequence[Block]) -> int:
    """The tokens of blocks together, as Roo counts them."""
    whole = sum(map(_tokens, blocks))
    return (3 * whole + 1) // 2


class RooCounter:
    """Counts a message as Roo does."""

    name: ClassVar[str] = "roo"
    exact: ClassVar[bool] = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message."""
        return roo_tokens(reader(format).blocks(role, content)[1])


def _tokens(block: Block) -> int:
    match block.get("type"):
        case "text":
            return O200K.count(_string(block))
        case "image":
            return _image(block.get("source"))
        case "tool_use":
            return O200K.count("\n".join(_call(block)))
        case "tool_result":
            return O200K.count("\n".join(_result(block)))
    return 0


def _image(source: Any) -> int:
    if not isinstance(source, dict) or "data" not in source:
        return IMAGE_BY_URL
    length = units(source["data"]) if isinstance(source["data"], str) else 0
    return isqrt(length - 1) + 1 if length else 0


def _call(block: Block) -> Iterator[str]:
    yield f"Tool: {_printed(block, 'name')}"
    if "input" in block:
        yield f"Arguments: {stringify(block['input'])}"


def _result(block: Block) -> Iterator[str]:
    yield f"Tool Result ({_printed(block, 'tool_use_id')})"
    if block.get("is_error"):
        yield "[Error]"
    content = block.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (_part(part if isinstance(part, dict) else {}) for part in content)


def _part(part: Block) -> str:
    match part.get("type"):
        case "text":
            return _string(part)
        case "image":
            return "[Image content]"
    return f"[Unsupported content block: {_printed(part, 'type')}]"


def _string(block: Block) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else ""


def _printed(block: Block, key: str) -> str:
    value = block.get(key, "undefined")
    return value if isinstance(value, str) else stringify(value)


counter = always(RooCounter())

"""Making and searching Anthropic's blocks, in which every format is shown."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from roocontext.log.readings.protocol import Block

_HOLDERS: Final = {
    **dict.fromkeys(("text", "input_text", "output_text"), ("text",)),
    "image": ("source", "data"),
    "document": ("source",),
    "search_result": ("content",),
    "tool_reference": ("tool_name",),
    "image_url": ("image_url",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_id", "file_data", "file_url"),
}
"""The parts that a provider's results may hold, each with the fields that its value can be in."""


def calls(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool call that waits for a result in the next message."""
    return list(_tools(blocks, "tool_use", "id"))


def nth_call(blocks: Sequence[Block], number: int) -> str:
    """Return the id of one of these calls, without looking at those behind it."""
    return next(islice(_tools(blocks, "tool_use", "id"), number, None))[1]


def results(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool result."""
    return list(_tools(blocks, "tool_result", "tool_use_id"))


def text(content: str) -> Block:
    """Make a block of text."""
    return {"type": "text", "text": content}


def image(mime: str, data: str) -> Block:
    """Make an image from its bytes in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def attached(kind: object) -> Block:
    """Stand for an attachment that no block of Anthropic's can show."""
    return {"type": "file", "title": kind if isinstance(kind, str) else "file"}


def tool_use(tool_id: str, name: str, arguments: Block) -> Block:
    """Make a tool call."""
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def tool_result(tool_id: str, output: object) -> Block:
    """Make the result of a tool call."""
    return {"type": "tool_result", "tool_use_id": tool_id, "content": output}


def words(output: object) -> str:
    """Show a tool's output as text: what is none, as its JSON."""
    if isinstance(output, str):
        return output
    if output is None:
        return ""
    return json.dumps(output, ensure_ascii=False, separators=(",", ":"))


def in_parts(output: object) -> object:
    """Show a tool's output as text, unless it is a list of parts of a message."""
    parts = dicts(output)
    is_list = bool(parts) and parts == output and all(map(_is_part, parts))
    return output if is_list else words(output)


def _is_part(part: Block) -> bool:
    # Tools list files, events and the like with a `type` of their own: those are data.
    return any(key in part for key in _HOLDERS.get(string(part, "type"), ()))


def as_dict(value: object) -> Block:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts(value: object) -> list[Block]:
    """List the objects of a list; return an empty list for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(holder: Block, key: str) -> str:
    """Return the string under a key, or an empty one."""
    value: Any = holder.get(key)
    return value if isinstance(value, str) else ""


def strings(holder: Block, *keys: str) -> Block:
    """Copy the fields of these names that are strings."""
    return {key: holder[key] for key in keys if isinstance(holder.get(key), str)}


def _tools(blocks: Sequence[Block], kind: str, key: str) -> Iterator[tuple[int, str]]:
    return (
        (index, block[key])
        for index, block in enumerate(blocks)
        if block.get("type") == kind and isinstance(block.get(key), str)
    )

"""The fixed texts that forms add. They depend only on what they quote."""

import json
from collections.abc import Iterator
from typing import Final

from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string, text

OPENING: Final = "[The conversation continues from here.]"
"""The user message before or after an assistant message that needs one."""

UNANSWERED: Final = "[No result was recorded for this call.]"
"""The made-up result of a call that has none."""

_ORPHAN: Final = "[Data: the result of an earlier call that is not shown, quoted as JSON]\n"


def no_result(call: Block) -> Block:
    """Answer a call that has no answer."""
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    return {**result, "content": UNANSWERED, "is_error": True}


def orphan(result: Block) -> Iterator[Block]:
    """Quote a result whose call is not sent, then its images."""
    parts = outputs_of(result)
    texts = [part["text"] for part in parts if part["type"] == "text"]
    quoted = {"id": result["tool_use_id"], "content": texts}
    yield text(_ORPHAN + json.dumps(quoted, ensure_ascii=False))
    yield from (part for part in parts if part["type"] == "image")


def outputs_of(result: Block) -> list[Block]:
    """List the texts and images of a result, and a line in place of anything else."""
    content = result.get("content")
    if isinstance(content, str):
        return [text(content)] if content else []
    return [part if part["type"] == "image" else shown_as_text(part) for part in dicts(content)]


def shown_as_text(block: Block) -> Block:
    """Show a document, a search result or anything else as text."""
    shown = document_text(block)
    if not shown.strip():
        return attachment(string(block, "title") or block.get("type"))
    heads = (string(block, key) for key in ("title", "source", "context"))
    return text("\n".join([*filter(None, heads), shown]))


def attachment(kind: object) -> Block:
    """Name an image or file that cannot be sent."""
    return text(f"[{kind if isinstance(kind, str) else 'file'} attached]")


def document_text(block: Block) -> str:
    """The text of a document or search result, if it is text."""
    if block.get("type") == "text":
        return string(block, "text")
    source = as_dict(block.get("source"))
    if source.get("type") == "text":
        return string(source, "data")
    inner = [*dicts(block.get("content")), *dicts(source.get("content"))]
    return "\n".join(string(part, "text") for part in inner)

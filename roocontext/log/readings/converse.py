"""Messages of Bedrock's Converse API: an object with blocks, each with a single value.

boto3 takes and returns the bytes of images and documents as `bytes`. The log keeps them in base64,
as they are on the wire.
"""

import base64
import binascii
from itertools import islice
from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
    as_dict,
    attached,
    check_message,
    compact_json,
    dicts,
    expect_role,
    image,
    pdf,
    string,
    strings,
    text,
    tool_result,
    tool_use,
    words,
)

_TEXTUAL: Final = ("txt", "md", "csv", "html")
"""The formats of documents that are text."""

_PARTS: Final = ("text", "json", "image", "document", "video", "searchResult")
"""The values that a part of a result may have."""

_BLOBS: Final = ("bytes", "redactedContent")
"""The fields that are `bytes` in boto3."""


class _Converse(ItemReader):
    list_key = "content"

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        check_message(role, content, ["content"], own="bedrock-converse")

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        return role, [shown for block in self.items(content) if (shown := converse_block(block))]

    def is_output(self, item: Block) -> bool:
        return isinstance(item.get("toolResult"), dict)

    def cleared(self, item: Block, placeholder: str) -> Block:
        return {**item, "toolResult": {**item["toolResult"], "content": [{"text": placeholder}]}}

    def bare(self, item: Block) -> Block:
        match item:
            case {"toolUse": dict(call)}:
                return {"toolUse": {**strings(call, "toolUseId", "name", "type"), "input": {}}}
            case {"toolResult": dict(result)}:
                fields = strings(result, "toolUseId", "status", "type")
                return {"toolResult": {**fields, "content": [{"text": REDACTED}]}}
            case {"image": _} | {"document": _} | {"video": _} | {"audio": _}:
                return {next(iter(item)): {}}
        return {"text": REDACTED}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, {"role": role, "content": [{"text": text}]}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        asked = (item["toolUse"] for item in self.items(content) if is_call(item))
        call = next(islice(asked, number, None))
        parts = dicts(output)
        are_parts = bool(parts) and parts == output
        are_parts = are_parts and all(
            len(part) == 1 and next(iter(part)) in _PARTS for part in parts
        )
        if not are_parts:
            parts = [{"json": output} if isinstance(output, dict) else {"text": words(output)}]
        status = {"status": "error"} if is_error else {}
        result = {"toolUseId": string(call, "toolUseId"), "content": parts, **status}
        return "user", {"role": "user", "content": [{"toolResult": result}]}


def is_call(block: Block) -> bool:
    """Return True for a call that the agent has to answer; a server tool's has a type."""
    call = block.get("toolUse")
    return isinstance(call, dict) and not string(call, "type")


def converse_block(block: Block) -> Block | None:
    """Show a block as one of Anthropic's; None for a cache point, which is no content."""
    match block:
        case {"toolUse": dict(call)}:
            call_block = tool_use(
                string(call, "toolUseId"), string(call, "name"), as_dict(call.get("input"))
            )
            return {**call_block, "type": "tool_use" if is_call(block) else "server_tool_use"}
        case {"toolResult": dict(result)}:
            parts = [_part(part) for part in dicts(result.get("content"))]
            is_error = result.get("status") == "error"
            call_block = tool_result(string(result, "toolUseId"), parts, is_error=is_error)
            is_served = bool(string(result, "type"))
            return {**call_block, "type": "server_tool_result"} if is_served else call_block
        case {"reasoningContent": dict(reasoning)}:
            return _thought(reasoning)
        case {"cachePoint": _}:
            return None
    return _part(block)


def _part(part: Block) -> Block:
    match part:
        case {"text": str(value)} | {"guardContent": {"text": {"text": str(value)}}}:
            return text(value)
        case {"json": value}:
            return text(compact_json(value))
        case {"citationsContent": dict(cited)}:
            words_cited = "".join(string(it, "text") for it in dicts(cited.get("content")))
            sources = dicts(cited.get("citations"))
            return {**text(words_cited), **({"citations": sources} if sources else {})}
        case {"searchResult": dict(found)}:
            inner = [text(string(it, "text")) for it in dicts(found.get("content"))]
            return {"type": "search_result", **strings(found, "source", "title"), "content": inner}
    return _media(part)


def _media(part: Block) -> Block:
    match part:
        case {"image": {"format": str(kind), "source": {"bytes": str(data)}}}:
            return image(f"image/{kind}", data)
        case {"document": dict(document)}:
            return _document(document)
    kind = next(iter(part), "")
    return attached(kind) if kind in ("image", "video", "audio") else {"type": kind, **part}


def _thought(reasoning: Block) -> Block:
    if isinstance(reasoning.get("redactedContent"), str):
        return {"type": "redacted_thinking", "data": reasoning["redactedContent"]}
    reasoning_text = as_dict(reasoning.get("reasoningText"))
    return {
        "type": "thinking",
        "thinking": string(reasoning_text, "text"),
        **strings(reasoning_text, "signature"),
    }


def _document(document: Block) -> Block:
    name, source = string(document, "name"), as_dict(document.get("source"))
    about = {"title": name, **strings(document, "context")}
    kind, data = string(document, "format"), string(source, "bytes")
    if data and kind == "pdf":
        return {**pdf(data), **about}
    content = string(source, "text") or "\n".join(
        string(it, "text") for it in dicts(source.get("content"))
    )
    if data and kind in _TEXTUAL:
        content = (from_base64(data) or b"").decode(errors="replace")
    if not content:
        return attached(name or kind or "document")
    inner = {"type": "text", "media_type": "text/plain", "data": content}
    return {"type": "document", "source": inner, **about}


def from_base64(data: str) -> bytes | None:
    """The bytes of standard base64; None if it is none."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def to_base64(value: Any) -> str:
    """Encode bytes as base64. As the `default` of `json.dumps` it writes what boto3 takes."""
    return base64.b64encode(value).decode()


def in_base64(value: Any) -> Any:
    """Copy a value with base64 in place of bytes, as the log stores it."""
    if isinstance(value, bytes | bytearray):
        return to_base64(value)
    if isinstance(value, dict):
        return {key: in_base64(it) for key, it in value.items()}
    return [in_base64(item) for item in value] if isinstance(value, list) else value


def with_bytes(block: Block) -> Block | None:
    """Copy a block with bytes, as boto3 takes it; None if its base64 is none.

    A block without any is returned as the same object.
    """
    made: Block = {}
    is_same = True
    for key, value in block.items():
        new = value
        if key in _BLOBS:
            new = from_base64(value) if isinstance(value, str) else None
        elif key in ("input", "json"):
            pass  # the agent's own
        elif isinstance(value, dict):
            new = with_bytes(value)
        elif isinstance(value, list):
            new = [with_bytes(item) if isinstance(item, dict) else item for item in value]
            if any(item is None for item in new):
                return None
            new = value if all(a is b for a, b in zip(new, value, strict=True)) else new
        if new is None:
            return None
        is_same = is_same and new is value
        made[key] = new
    return block if is_same else made


CONVERSE: Final[Reader] = _Converse()

"""Making and searching Anthropic's blocks, in which every format is shown.

The checks of readers. Each error names the path and never quotes the content.

The protocol of a format's reader.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from roocontext.errors import InvalidMessage

Block: TypeAlias = dict[str, Any]
"""A part of a message: Anthropic's block, or its counterpart in another format."""

REDACTED: Final = "[redacted]"
"""The text that a redaction leaves in place of a text."""


class Reader(Protocol):
    """Reads one format. It copies a content where it replaces something, and never changes one.

    It refuses nothing that could be a message, and it fails on nothing that its `check` accepts:
    values that it does not know, or that have the wrong type, it leaves alone.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that a message of the format may have."""

    @property
    def answers_by_id(self) -> bool:
        """Whether the id of a call is all that `answer` needs of the message that holds it."""

    def check(self, role: str, content: object) -> None:
        """Raise InvalidMessage if this cannot be a message of the format."""

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        """Read the message as Anthropic's role and blocks."""

    def outputs(self, content: object) -> tuple[int, ...]:
        """List the indices of the blocks that are tool outputs, which is what can be cleared."""

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        """Copy the content with the placeholder in those tool outputs."""

    def skeleton(self, content: object) -> object:
        """Reduce the content to its skeleton for a redaction: role, types, tool ids and names."""

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        """Make the role and content of a text message of the user or assistant."""

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        """Make the role and content of a message that answers one of the calls in this content.

        The output is stored unchanged if the format has a place for its shape, else as JSON.
        """


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


# By their names: agents have types of their own that end in the same words.
_RESPONSES_ITEM: Final = re.compile(
    r"message|reasoning|item_reference|mcp_list_tools|mcp_approval_re(?:quest|sponse)"
    r"|(?:function|custom_tool|shell|local_shell|apply_patch|computer)_call(?:_output)?"
    r"|(?:mcp|tool_search|web_search|file_search|code_interpreter|image_generation)_call"
    r"|tool_search_output"
)
_ANTHROPIC_BLOCK: Final = re.compile(
    r"thinking|redacted_thinking|(?:server_|mcp_)?tool_use|(?:mcp_)?tool_result"
    r"|(?:advisor|tool_search|web_fetch|web_search)_tool_result"
    r"|(?:bash_|text_editor_)?code_execution_tool_result"
)
_GEMINI_PART: Final = ("functionCall", "functionResponse", "function_call", "function_response")


def expect(value: object, path: str, *kinds: type) -> None:
    """Refuse a value of any other type."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidMessage(f"{path} must be {wanted}, not {type(value).__name__}.", path=path)


def expect_role(role: str, *known: str) -> None:
    """Refuse a role that the format does not have."""
    if role not in known:
        raise InvalidMessage(f"role must be one of {', '.join(known)}.", path="role")


def check_list(value: object, path: str, *, own: str) -> None:
    """Accept only a list of objects whose types are not blank and not another format's."""
    expect(value, path, list)
    items = value if isinstance(value, list) else []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            expect(item, f"{path}[{index}]", dict)
    check_types(items, path, own=own)


def check_types(items: Sequence[object], path: str, *, own: str) -> None:
    """Refuse blank types, and items of another format."""
    for index, item in enumerate(items):
        kind = as_dict(item).get("type")
        if kind == "text":  # most items: of several formats, so nothing to refuse
            continue
        if isinstance(kind, str) and not kind.strip():
            raise InvalidMessage(f"{path}[{index}].type is blank.", path=f"{path}[{index}].type")
        refuse_item(item, f"{path}[{index}]", own=own)


def refuse_item(item: object, path: str, *, own: str) -> None:
    """Refuse an item of another format: it would be stored but could not be read."""
    format_ = _format_of(item)
    if format_ is not None and format_ != own:
        raise InvalidMessage(
            f"{path} cannot be stored in the format {own}: append it with format={format_!r}.",
            path=path,
        )


def check_message(role: str, content: object, lists: Sequence[str], *, own: str) -> None:
    """Accept only an object with these lists and, if it names a role, this role."""
    if isinstance(content, list):
        check_types(content, "content", own=own)  # names the right format, unlike "must be dict"
    if as_dict(content).get("role") is None or as_dict(content).get("type") == "message":
        refuse_item(content, "content", own=own)
    expect(content, "content", dict)
    message = as_dict(content)
    if message.get("role", role) != role:
        raise InvalidMessage(
            "content.role differs from the role of the message.", path="content.role"
        )
    for key in lists:
        if message.get(key) is not None:
            check_list(message[key], f"content.{key}", own=own)


def _format_of(item: object) -> str | None:
    """The format that has such an item, if only one has it."""
    fields = as_dict(item)
    kind = fields.get("type")
    if kind == "reasoning" and isinstance(fields.get("text"), str):
        return None  # a block of Roo Code's; an item has no text of its own
    if isinstance(kind, str):
        if _RESPONSES_ITEM.fullmatch(kind):
            return "openai-responses"
        return "anthropic" if _ANTHROPIC_BLOCK.fullmatch(kind) else None
    if isinstance(fields.get("parts"), list):
        return "gemini"
    if isinstance(fields.get("tool_calls"), list) or isinstance(fields.get("tool_call_id"), str):
        return "openai"
    return "gemini" if any(isinstance(fields.get(key), dict) for key in _GEMINI_PART) else None

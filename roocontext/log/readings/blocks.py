"""The parts that readers share: the protocol, Anthropic's blocks, and the checks of stored content.

The error of a check names the path of the value and never quotes the content.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from roocontext.errors import InvalidMessage
from roocontext.log.encoding import encode

Block: TypeAlias = dict[str, Any]
"""A part of a message: Anthropic's block, or its counterpart in another format."""

RoleAndBlocks: TypeAlias = tuple[str, list[Block]]
"""How a reader shows a message: its role, user or assistant, and its blocks."""

REDACTED: Final = "[redacted]"
"""The text that a redaction leaves in place of a text."""


class Reader(Protocol):
    """Reads one format. It never changes a content: where it replaces something, it copies.

    It refuses nothing that could be a message, and it fails on nothing that its `check` accepts:
    values that it does not know, or that have the wrong type, it leaves as they are.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that a message of the format may have."""

    @property
    def answers_by_id(self) -> bool:
        """True if `answer` needs only the id of a call, not the message that holds the call."""

    def check(self, role: str, content: object) -> None:
        """Raise InvalidMessage if this cannot be a message of the format."""

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        """Read the message as Anthropic's role and blocks."""

    def outputs(self, content: object) -> tuple[int, ...]:
        """List the indices of the tool outputs, which are the blocks that can be cleared."""

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


class ItemReader(Reader, Protocol):
    """The rules that the built-in readers share: a message is a list of items, or a single item.

    Some of the items are outputs of tools. A reader says which, and how an output is cleared and an
    item is redacted.
    """

    roles: tuple[str, ...] = ("user", "assistant")
    answers_by_id: bool = False
    list_key: str | None = None
    """The field of a message that lists its items; None if the message is a single item."""

    def items(self, content: object) -> list[Block]:
        """List the items of a message."""
        fields = as_dict(content)
        return [fields] if self.list_key is None else dicts(fields.get(self.list_key))

    def with_items(self, content: object, items: list[Block]) -> object:
        """Copy the content with these items."""
        return items[0] if self.list_key is None else {**as_dict(content), self.list_key: items}

    def is_output(self, item: Block) -> bool:
        """Return True for the output of a tool."""

    def cleared(self, item: Block, placeholder: str) -> Block:
        """Copy an output with the placeholder as its content."""
        return {**item, "content": placeholder}

    def bare(self, item: Block) -> Block:
        """Reduce an item to its skeleton."""

    def outputs(self, content: object) -> tuple[int, ...]:
        """List the indices of the tool outputs."""
        items = enumerate(self.items(content))
        return tuple(index for index, item in items if self.is_output(item))

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        """Copy the content with the placeholder in those tool outputs."""
        chosen = set(indices) & set(self.outputs(content))
        if not chosen:
            return content
        items = [
            self.cleared(item, placeholder) if index in chosen else item
            for index, item in enumerate(self.items(content))
        ]
        return self.with_items(content, items)

    def skeleton(self, content: object) -> object:
        """Reduce the content to its skeleton for a redaction."""
        kept = content if self.list_key is None else strings(as_dict(content), "role")
        return self.with_items(kept, list(map(self.bare, self.items(content))))


def side_of(role: str) -> str:
    """The side of a conversation that a role of any format speaks for: assistant or user."""
    return "assistant" if role in ("assistant", "model") else "user"


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

_DATA_URL: Final = re.compile(r"data:([^;,]++)[^,]*;base64,(.*)", re.DOTALL)


def calls(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool call that waits for a result in the next message."""
    return list(_tools(blocks, "tool_use", "id"))


def results(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool result."""
    return list(_tools(blocks, "tool_result", "tool_use_id"))


def text(content: str) -> Block:
    """Make a block of text."""
    return {"type": "text", "text": content}


def texts(content: str) -> list[Block]:
    """Make the blocks of a message that is a single text; an empty text has none."""
    return [text(content)] if content else []


def image(mime: str, data: str) -> Block:
    """Make an image from its bytes in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def image_at(url: str) -> Block:
    """Make an image from its URL, which may hold the data."""
    if inline := _DATA_URL.fullmatch(url):
        return image(inline[1], inline[2])
    return {"type": "image", "source": {"type": "url", "url": url}}


PDF: Final = "application/pdf"


def pdf(data: str, title: str = "") -> Block:
    """Make a document from the bytes of a PDF in base64."""
    source = {"type": "base64", "media_type": PDF, "data": data}
    return {"type": "document", "source": source, **({"title": title} if title else {})}


def file_at(url: str, title: str = "") -> Block:
    """Make a document from a data URL or another URL; None is known of other data than a PDF."""
    if inline := _DATA_URL.fullmatch(url):
        return pdf(inline[2], title) if inline[1] == PDF else attached(title or inline[1])
    if not url.startswith(("http://", "https://")):
        return attached(title or "file")
    return {"type": "document", "source": {"type": "url", "url": url}}


def standard_base64(data: str) -> str:
    """Convert base64 from the URL alphabet of SDK dumps, which other providers refuse."""
    return data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)


def attached(kind: object) -> Block:
    """Make a block that names an attachment that no block of Anthropic's can show."""
    return {"type": "file", "title": kind if isinstance(kind, str) else "file"}


def tool_use(tool_id: str, name: str, arguments: Block) -> Block:
    """Make a tool call."""
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def tool_result(tool_id: str, output: object, *, is_error: bool = False) -> Block:
    """Make the result of a tool call."""
    result = {"type": "tool_result", "tool_use_id": tool_id, "content": output}
    return {**result, "is_error": True} if is_error else result


def parse_arguments(raw: object) -> Block:
    """Parse a call's arguments, which a model may have left broken or cut off."""
    try:
        parsed = json.loads(raw) if isinstance(raw, str) else raw
        encode(parsed)  # values that cannot be stored, such as NaN, could not be sent either
    except (ValueError, RecursionError):
        return {"arguments": raw}
    return parsed if isinstance(parsed, dict) else {"arguments": raw}


def compact_json(value: object) -> str:
    """Write a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def words(output: object) -> str:
    """Return a tool's output as text: a text as it is, any other value as JSON."""
    if isinstance(output, str):
        return output
    return "" if output is None else compact_json(output)


def are_parts(output: object) -> bool:
    """True if a tool's output is a list of parts of a message."""
    parts = dicts(output)
    return bool(parts) and parts == output and all(map(_is_part, parts))


def in_parts(output: object) -> object:
    """Return a tool's output as text, unless it is a list of parts of a message."""
    return output if are_parts(output) else words(output)


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
_OF_PARTS: Final = {
    **dict.fromkeys(("functionCall", "functionResponse", "function_call"), "gemini"),
    "function_response": "gemini",
    **dict.fromkeys(("toolUse", "toolResult", "reasoningContent"), "bedrock-converse"),
    "citationsContent": "bedrock-converse",
}
"""Parts without a type, by the name of their value."""


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
    # An item has no text of its own, and the thinking of a block is a text.
    is_roos = kind == "reasoning" and isinstance(fields.get("text"), str)
    is_mistrals = kind == "thinking" and isinstance(fields.get("thinking"), list)
    if is_roos or is_mistrals:
        return None
    if isinstance(kind, str):
        if _RESPONSES_ITEM.fullmatch(kind):
            return "openai-responses"
        return "anthropic" if _ANTHROPIC_BLOCK.fullmatch(kind) else None
    if isinstance(fields.get("parts"), list):
        return "gemini"
    if isinstance(fields.get("tool_calls"), list) or isinstance(fields.get("tool_call_id"), str):
        return "openai"
    return next(
        (name for key, name in _OF_PARTS.items() if isinstance(fields.get(key), dict)), None
    )

"""The checks of readers. Each error names the path and never quotes the content."""

import re
from collections.abc import Sequence
from typing import Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings.blocks import as_dict

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

"""What readers refuse: each error names the place, and never what stands there."""

import re
from collections.abc import Sequence
from typing import Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings.blocks import as_dict

_RESPONSES_ITEM: Final = re.compile(
    r"message|reasoning|item_reference|mcp_list_tools|mcp_approval_re(?:quest|sponse)"
    r"|\w*_call(?:_output)?"
)
"""The types of OpenAI's Responses items. No block of Anthropic's has such a type."""


def expect(value: object, path: str, *kinds: type) -> None:
    """Refuse a value of any other type."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidMessage(f"{path} must be {wanted}, not {type(value).__name__}.", path=path)


def expect_role(role: str, *known: str) -> None:
    """Refuse a role that the format does not know."""
    if role not in known:
        raise InvalidMessage(f"role must be one of {', '.join(known)}.", path="role")


def check_list(value: object, path: str) -> None:
    """Refuse what is not a list of objects with sound types."""
    expect(value, path, list)
    items = value if isinstance(value, list) else []
    for index, item in enumerate(items):
        expect(item, f"{path}[{index}]", dict)
    check_types(items, path)


def check_types(items: Sequence[object], path: str) -> None:
    """Refuse blank types, and items of a format that is not supported."""
    for index, item in enumerate(items):
        kind = as_dict(item).get("type")
        if isinstance(kind, str) and not kind.strip():
            raise InvalidMessage(f"{path}[{index}].type is blank.", path=f"{path}[{index}].type")
        refuse_item(item, f"{path}[{index}]")


def refuse_item(item: object, path: str) -> None:
    """Refuse an item of OpenAI's Responses API, which would be stored and never be read."""
    kind = as_dict(item).get("type")
    if kind == "reasoning" and isinstance(as_dict(item).get("text"), str):
        return  # a block of Roo Code's; an item has no text of its own
    if isinstance(kind, str) and _RESPONSES_ITEM.fullmatch(kind):
        raise InvalidMessage(
            f"{path} is an item of OpenAI's Responses API, a format that is not supported yet:"
            " append the messages of Chat Completions.",
            path=path,
        )


def check_message(role: str, content: object, lists: Sequence[str]) -> None:
    """Refuse what is not an object with this role, if it names one, and with these lists."""
    if isinstance(content, list):
        check_types(content, "content")  # says more about the items of a response than "no dict"
    refuse_item(content, "content")
    expect(content, "content", dict)
    message = as_dict(content)
    if message.get("role", role) != role:
        raise InvalidMessage("content.role is not the role it is given.", path="content.role")
    for key in lists:
        if message.get(key) is not None:
            check_list(message[key], f"content.{key}")

"""Items of OpenAI's Responses API that another program keeps, and the messages that hold them."""

from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings import reader
from roocontext.log.readings.openai_responses import OUTPUTS, type_of

RAW: Final = "roocontext.item"
"""The type of an item that wraps one that the format cannot hold."""


def role_of_item(item: dict[str, Any]) -> str:
    """The role of the message that holds an item."""
    kind = type_of(item)
    if kind == "message":
        return str(item.get("role"))
    is_answer = kind in OUTPUTS or kind == "mcp_approval_response"
    return "user" if is_answer and item.get("execution") != "server" else "assistant"


def as_object(item: Any) -> dict[str, Any]:
    """The item, wrapped if it is not an object, or looks like a wrapped one."""
    if isinstance(item, dict) and item.get("type") != RAW:
        return item
    return {"type": RAW, "item": item}


def storable_item(item: Any) -> dict[str, Any]:
    """The item, wrapped if the format has no such items."""
    stored = as_object(item)
    try:
        reader("openai-responses").check(role_of_item(stored), stored)
    except InvalidMessage:
        return {"type": RAW, "item": item}
    return stored

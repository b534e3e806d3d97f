"""The short path for histories in which nothing needs a repair.

Nearly every history is of this kind, and the general path takes several times as long as reading
the view. What is accepted here is a part of what the general path leaves as it is; a test compares
the two on random histories.
"""

from collections.abc import Sequence
from typing import Any, Final

from roocontext.log.encoding import whole
from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import THINKING, TOOL_ID, fix

_NEXT: Final = {"user": "assistant", "assistant": "user"}


def settled(messages: Sequence[Message]) -> list[dict[str, Any]] | None:
    """Give the stored objects if they can all be sent as they are, else None."""
    outgoing: list[dict[str, Any]] = []
    wanted = "user"
    waiting: list[str] = []
    taken: set[str] = set()
    for message in messages:
        role, content = message.role, message.content
        if role != wanted or message.format != "anthropic":
            return None
        tools = [] if _is_sendable(content) else _tools(role, content)
        if tools is None:
            return None
        if role == "user":
            if tools != waiting:
                return None
            wanted = "assistant"
        else:
            if not taken.isdisjoint(tools):
                return None
            taken.update(tools)
            waiting = tools
            wanted = "user"
        outgoing.append({"role": role, "content": content})
    return outgoing


def _is_sendable(content: Any) -> bool:
    """Whether it is a text, or one block of text, without anything to repair."""
    if type(content) is list and len(content) == 1:
        block = content[0]
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return False
        content = block.get("text")
    if type(content) is not str or not content or content.isspace():
        return False
    return content.isascii() or whole(content) is content


def _tools(role: str, content: Any) -> list[str] | None:
    """The sorted ids of the message's calls or results; None if anything needs a repair."""
    if type(content) is not list or not content:
        return None
    for block in content:
        if type(block) is not dict:
            return None
        if not _is_sendable([block]) and fix(role, block) != (block, []):
            return None
    if role == "user":
        ids = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        first = all(block["type"] == "tool_result" for block in content[: len(ids)])
        return sorted(ids) if first else None
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    ends = content[-1]["type"] not in THINKING
    valid = ends and len(ids) == len(set(ids)) and all(map(TOOL_ID.fullmatch, ids))
    return sorted(ids) if valid else None

"""The short path for histories in which nothing needs a repair.

Nearly every history is of this kind, and the general path takes several times as long as reading
the view. This path accepts only histories that the general path would not change; a test compares
the two on random histories.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from roocontext.log.encoding import whole
from roocontext.log.entries import Message
from roocontext.log.forms.anthropic_blocks import attached_to_error, fix_own
from roocontext.log.forms.block_rules import THINKING, is_utf8
from roocontext.log.forms.models import model_of
from roocontext.log.forms.server_tools import is_server_tool


def settled(
    messages: Sequence[Message], model: str | None, drop_thinking: Collection[int]
) -> list[dict[str, Any]] | None:
    """Return the stored objects if all of them can be sent as they are, else None."""
    outgoing: list[dict[str, Any]] = []
    wanted = "user"
    waiting: list[str] = []
    taken: set[str] = set()
    thinkers: set[str | None] = set()
    for message in messages:
        role, content = message.role, message.content
        # Two rows of one role, or the assistant first, need the general path.
        if role != wanted or message.format != "anthropic":
            return None
        tools = [] if (plain := _is_sendable(content)) else _tools(role, content)
        if tools is None:
            return None
        if role == "user":
            if tools != waiting:
                return None
            wanted = "assistant"
        else:
            if not taken.isdisjoint(tools):
                return None
            if not plain:
                thinkers.update(message.model for block in content if block["type"] in THINKING)
            taken.update(tools)
            waiting = tools
            wanted = "user"
        outgoing.append({"role": role, "content": content})
    foreign = thinkers and (drop_thinking or thinkers != {model or model_of(messages)})
    return None if foreign or (wanted == "user" and _ends_in_space(outgoing)) else outgoing


def _ends_in_space(outgoing: Sequence[dict[str, Any]]) -> bool:
    last: Any = outgoing[-1]["content"] if outgoing else ""
    text = last if type(last) is str else last[-1].get("text", "")
    return str(text) != str(text).rstrip()


def _is_sendable(content: Any) -> bool:
    """Whether it is a text, or one block of text, without anything to repair."""
    if type(content) is list and len(content) == 1:
        block = content[0]
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return False
        content = block.get("text")
    return type(content) is str and _is_text(content)


def _is_text(text: str) -> bool:
    if not text or text.isspace():
        return False
    return text.isascii() or whole(text) is text


def _tools(role: str, content: Any) -> list[str] | None:
    """The sorted ids of the message's calls or results; None if anything needs a repair."""
    if type(content) is not list or not content:
        return None
    kind, key = ("tool_result", "tool_use_id") if role == "user" else ("tool_use", "id")
    usual = _USUAL[role]
    ids: list[str] = []
    for place, block in enumerate(content):
        if type(block) is not dict:
            return None
        known = usual.get(len(block))
        if not (known is not None and known(block)) and not _is_untouched(role, block):
            return None
        if block["type"] == kind:
            if role == "user" and len(ids) != place:
                return None  # results come first
            ids.append(block[key])
    if content[-1]["type"] in THINKING or len(ids) != len(set(ids)):
        return None
    # Sorted, because results may answer their calls in any order.
    return sorted(ids)


def _is_untouched(role: str, block: dict[str, Any]) -> bool:
    fixed, rules = fix_own(role, block)
    if fixed is None or rules or attached_to_error(block):
        return False
    if block["type"] != "tool_use":
        return not is_server_tool(block["type"]) and "cache_control" not in block
    return "cache_control" not in block and bool(
        _TOOL.fullmatch(block["name"]) and _TOOL.fullmatch(block["id"])
    )


# The usual blocks are recognised by their shape: the general rules cost several times more.


def _is_said(block: dict[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and type(text) is str and _is_text(text)


def _is_result(block: dict[str, Any]) -> bool:
    output = block.get("content")
    if block.get("type") != "tool_result" or type(output) is not str:
        return False
    return type(block.get("tool_use_id")) is str and output.isascii()


def _is_call(block: dict[str, Any]) -> bool:
    name, tool_id = block.get("name"), block.get("id")
    if block.get("type") != "tool_use" or type(name) is not str or type(tool_id) is not str:
        return False
    if not (_TOOL.fullmatch(name) and _TOOL.fullmatch(tool_id)):
        return False
    return type(block.get("input")) is dict and is_utf8(block["input"])


def _is_thought(block: dict[str, Any]) -> bool:
    thought, sealed = block.get("thinking"), block.get("signature")
    if block.get("type") != "thinking" or type(thought) is not str or type(sealed) is not str:
        return False
    return thought.isascii() and sealed.isascii()


_USUAL: Final[dict[str, dict[int, Callable[[dict[str, Any]], bool]]]] = {
    "user": {2: _is_said, 3: _is_result},
    "assistant": {2: _is_said, 3: _is_thought, 4: _is_call},
}
"""Checks by role and number of fields."""

_TOOL: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""Ids and names of this kind are sent as they are."""

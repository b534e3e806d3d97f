"""Which blocks can be sent, and how the others are fixed.

Every form reads the rows of other formats as Anthropic's blocks, so these rules hold for all of
them.
"""

import json
import re
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from roocontext.log.encoding import whole
from roocontext.log.forms.repairs import Rule
from roocontext.log.readings import REDACTED, Block

THINKING: Final = ("thinking", "redacted_thinking")

_INNER: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})

_ALLOWED: Final[dict[str, AbstractSet[str]]] = {
    "assistant": frozenset({"text", "tool_use", *THINKING}),
    "user": _INNER | {"tool_result"},
    "tool": _INNER,
}
"""Which of these types a role, or a result, may hold; `KNOWN` decides about others."""

_LIMITED: Final = frozenset().union(*_ALLOWED.values())

KNOWN: Final = re.compile(
    r"server_tool_use|\w+_tool_result|mcp_tool_use|compaction|fallback|tool_addition|tool_removal"
    r"|mcp_tool_listing|container_upload"
)
"""Anthropic's types that no other provider knows."""

_REPLIES: Final = re.compile(
    r"server_tool_use|\w+_tool_result|mcp_tool_use|compaction|fallback|mcp_tool_listing"
)
"""Those of them that only replies have."""

_NEEDED: Final = {
    "text": ("text",),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}

_NEVER_BARE: Final = re.compile(
    r"image|document|search_result|container_upload|\w+_tool_(?:use|result)"
)


def fix(role: str, block: Block) -> tuple[Block | None, list[Rule]]:
    """Return a block made sendable, or None if that is impossible; and the broken rules."""
    refusal = _refusal(role, block)
    if refusal is not None:
        return None, [refusal]
    rules = []
    for rule, repaired in _FIXES.items():
        fixed = repaired(block)
        if fixed is not block:
            rules.append(rule)
            block = fixed
    return block, rules


def is_utf8(value: Any) -> bool:
    """Return True if no string in it has a lone surrogate."""
    # msgspec refuses a lone surrogate in a tenth of the time that it takes to look for one.
    try:
        _encode(value)
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def encodable(value: Any) -> Any:
    """Replace lone surrogates; a value without any is returned as the same object."""
    return value if is_utf8(value) else json.loads(whole(json.dumps(value, ensure_ascii=False)))


def _refusal(role: str, block: Block) -> Rule | None:
    kind = block.get("type")
    if not isinstance(kind, str) or not kind.strip():
        return Rule.MALFORMED
    if refusal := _place(role, kind):
        return refusal
    lacks = any(not isinstance(block.get(key), str) for key in _NEEDED.get(kind, ()))
    if lacks or (kind == "tool_use" and not block["name"]):
        return Rule.THINKING if kind in THINKING else Rule.MALFORMED
    # A blank text is refused (anthropics/claude-code#59812).
    if kind == "text" and not block["text"].strip():
        return Rule.BLANK
    return Rule.THINKING if kind in THINKING and not is_utf8(block) else None


def _place(role: str, kind: str) -> Rule | None:
    """Why a role, or a result, may not hold blocks of this type."""
    if kind in _LIMITED:
        return None if kind in _ALLOWED[role] else Rule.MISPLACED
    if role == "tool" or not KNOWN.fullmatch(kind):
        return Rule.UNKNOWN
    return Rule.MISPLACED if role == "user" and _REPLIES.fullmatch(kind) else None


def _shown(block: Block) -> Block:
    if block.keys() == {"type"} and _NEVER_BARE.fullmatch(block["type"]):
        return {"type": "text", "text": REDACTED}
    return block


def _with_input(block: Block) -> Block:
    # A model may have left a text that was no object (anthropics/claude-code#6696).
    if block["type"] != "tool_use" or isinstance(block.get("input"), dict):
        return block
    return {**block, "input": {}}


def _with_output(block: Block) -> Block:
    output = block.get("content", "")
    if block["type"] != "tool_result" or isinstance(output, str):
        return block
    parts = output if isinstance(output, list) else []
    accepted = [part for part in parts if isinstance(part, dict) and _refusal("tool", part) is None]
    return block if accepted == output else {**block, "content": accepted}


# By default msgspec refuses subclasses of str. What is not JSON is refused where it is stored.
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


_FIXES: Final = {
    Rule.REDACTED: _shown,
    Rule.INPUT: _with_input,
    Rule.OUTPUT: _with_output,
    Rule.SURROGATE: encodable,
}

"""What the Messages API accepts of a single block, and how a block is fixed that it refuses."""

import json
import re
from contextlib import suppress
from typing import Final

import msgspec

from roocontext.log.encoding import whole
from roocontext.log.forms.repairs import Rule
from roocontext.log.readings import REDACTED, Block

TOOL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
"""The ids of calls that the API accepts."""

THINKING: Final = ("thinking", "redacted_thinking")

_SENDER: Final = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}

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
    """Make a block sendable, or give None if that is impossible; and which rules were broken."""
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


def _refusal(role: str, block: Block) -> Rule | None:
    kind = block.get("type")
    if not isinstance(kind, str) or not kind.strip():
        return Rule.MALFORMED
    if _SENDER.get(kind, role) != role:
        return Rule.MISPLACED
    if _lacking(kind, block):
        return Rule.THINKING if kind in THINKING else Rule.MALFORMED
    if kind == "text" and not block["text"].strip():
        return Rule.BLANK
    return Rule.THINKING if kind in THINKING and _encodable(block) is not block else None


def _lacking(kind: str, block: Block) -> bool:
    if any(not isinstance(block.get(key), str) for key in _NEEDED.get(kind, ())):
        return True
    return kind == "tool_use" and not block["name"]


def _shown(block: Block) -> Block:
    if block.keys() == {"type"} and _NEVER_BARE.fullmatch(block["type"]):
        return {"type": "text", "text": REDACTED}
    return block


def _with_input(block: Block) -> Block:
    if block["type"] != "tool_use" or isinstance(block.get("input"), dict):
        return block
    return {**block, "input": {}}


def _with_output(block: Block) -> Block:
    output = block.get("content", "")
    if block["type"] != "tool_result" or isinstance(output, str):
        return block
    parts = output if isinstance(output, list) else []
    kept = [part for part in parts if isinstance(part, dict) and _refusal("tool", part) is None]
    return block if kept == output else {**block, "content": kept}


def _encodable(block: Block) -> Block:
    # msgspec refuses a lone surrogate in a tenth of the time that it takes to look for one.
    with suppress(UnicodeEncodeError, RecursionError):
        _encode(block)
        return block
    return dict(json.loads(whole(json.dumps(block, ensure_ascii=False))))


_encode: Final = msgspec.json.Encoder().encode


_FIXES: Final = {
    Rule.REDACTED: _shown,
    Rule.INPUT: _with_input,
    Rule.OUTPUT: _with_output,
    Rule.SURROGATE: _encodable,
}

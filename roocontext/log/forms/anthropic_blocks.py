"""Anthropic's own rules for a block, beyond those that hold for every provider."""

from collections.abc import Set as AbstractSet
from typing import Final

from roocontext.log.forms.block_rules import THINKING, fix
from roocontext.log.forms.frames import attachment
from roocontext.log.forms.repairs import Rule
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

# An unknown field is refused (anthropics/claude-code#4378); agents keep fields of their own here.
FIELDS: Final[dict[str, AbstractSet[str]]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control", "transformations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset(
        {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}
    ),
    "tool_result": frozenset(
        {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}
    ),
}
"""The fields that Anthropic knows of the blocks that agents write; a `null` is refused."""


def fix_own(role: str, block: Block) -> tuple[Block | None, list[Rule]]:
    """Return an Anthropic block made sendable, or None; and the rules that were broken."""
    fixed, rules = fix(role, block)
    if fixed is None:
        return None, rules
    slim = trimmed(fixed)
    if slim is not fixed:
        if slim["type"] in THINKING and fixed.keys() - slim.keys() != {"cache_control"}:
            return None, [Rule.THINKING]  # sent byte-exact or not at all
        rules.append(Rule.FIELD)
    placed = _placed(slim)
    if placed is not slim:
        rules.append(Rule.MEDIA)
    return placed, rules


def is_anthropic_image(image: Block) -> bool:
    """Whether Anthropic accepts this image."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return source.get("media_type") in _IMAGES and isinstance(source.get("data"), str)
    return any(isinstance(source.get(key), str) for key in ("url", "file_id"))


def attached_to_error(block: Block) -> list[Block]:
    """The parts of an error result that are not text, which Anthropic refuses."""
    if block["type"] != "tool_result" or block.get("is_error") is not True:
        return []
    return [it for it in dicts(block.get("content")) if it["type"] != "text"]


def trimmed(block: Block) -> Block:
    """A block without the fields that Anthropic refuses; the block itself if it has none."""
    known = FIELDS.get(str(block.get("type")))
    if known is not None and not (block.keys() <= known and None not in block.values()):
        block = {key: it for key, it in block.items() if key in known and it is not None}
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        inner = [trimmed(part) if isinstance(part, dict) else part for part in block["content"]]
        if any(it is not part for it, part in zip(inner, block["content"], strict=True)):
            return {**block, "content": inner}
    return block


def _placed(block: Block) -> Block:
    if block["type"] == "image":
        return (
            block
            if is_anthropic_image(block)
            else attachment(as_dict(block.get("source")).get("media_type"))
        )
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        inner = [_placed(part) for part in block["content"]]
        if any(it is not part for it, part in zip(inner, block["content"], strict=True)):
            return {**block, "content": inner}
    return block

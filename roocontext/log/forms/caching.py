"""Anthropic's cache breakpoints, at most four in a request, tools and system included."""

from collections.abc import Sequence
from typing import Any, Final

from roocontext.log.forms.block_rules import THINKING
from roocontext.log.readings.blocks import dicts, text

_MARK: Final = {"type": "ephemeral"}
# Documented; the caller's own marks count too.
_MOST: Final = 4


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """Copy a request with marks after its tools, its system prompt and its last message."""
    count = _count([body.get("tools"), body.get("system"), body["messages"]])
    body = dict(body)
    for name in ("tools", "system", "messages"):
        if count < _MOST and body.get(name):
            parts = _last_marked(body[name]) if name == "messages" else _marked(body[name])
            if parts is not None:
                body[name], count = parts, count + 1
    return body


def _last_marked(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    content = _marked(messages[-1]["content"])
    return None if content is None else [*messages[:-1], {**messages[-1], "content": content}]


def _marked(parts: Any) -> list[dict[str, Any]] | None:
    """Mark the last part, unless it is already marked or cannot be."""
    listed = [text(parts)] if isinstance(parts, str) else dicts(parts)
    # Thinking is sent byte-exact, so it can carry no mark.
    if not listed or "cache_control" in listed[-1] or listed[-1].get("type") in THINKING:
        return None
    return [*listed[:-1], {**listed[-1], "cache_control": _MARK}]


def _count(value: Any) -> int:
    if isinstance(value, dict):
        inner = sum(map(_count, value.values())) if "content" in value else 0
        return inner + ("cache_control" in value)
    return sum(map(_count, value)) if isinstance(value, list) else 0

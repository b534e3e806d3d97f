"""Anthropic's cache breakpoints, at most four in a request, tools and system included.

An agent may set its own marks, and an agent that marks each message that it stores soon has more
than four. Then the newest are sent. A mark is no content, so a prefix without it is the same.

A mark of one hour must come ahead of all that last five minutes (documented), in the order of
tools, system and messages. What is ahead of such a mark is cached for an hour with it in any case,
so a mark there becomes one of an hour too.
"""

from collections.abc import Sequence
from typing import Any, Final

from roocontext.log.forms.arrange import OutgoingTurn
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.parts import Repairs
from roocontext.log.forms.repairs import Rule
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import dicts, text

_MARK: Final = {"type": "ephemeral"}
# Documented; the caller's own marks count too.
_MOST: Final = 4
_LONGEST: Final = "1h"


def fit_marks(turns: Sequence[OutgoingTurn], repairs: Repairs) -> None:
    """Leave out all marks but the newest four, and put the longest first."""
    left, lasts = _MOST, False
    for part in (part for turn in reversed(turns) for part in reversed(turn.parts)):
        count = count_marks(part.block)
        left -= count
        if count and left < 0:
            part.block, part.native = _unmarked(part.block), None
            repairs.add(part.row, Rule.FIELD, part.index)
        elif count:
            block, lasts = _lengthened(part.block, lasts=lasts)
            if block != part.block:
                part.block, part.native = block, None
                repairs.add(part.row, Rule.FIELD, part.index)


def within_bounds(body: dict[str, Any]) -> dict[str, Any]:
    """Leave out the older marks of the messages, if tools and system have marks too."""
    left = _MOST - count_marks([body.get("tools"), body.get("system")])
    if count_marks(body["messages"]) <= left:
        return body
    messages: list[dict[str, Any]] = []
    for message in reversed(body["messages"]):
        left -= count_marks(message)
        messages.append(_unmarked(message) if left < 0 else message)
    return {**body, "messages": messages[::-1]}


def longest_first(body: dict[str, Any]) -> dict[str, Any]:
    """Give the marks ahead of a mark of one hour an hour too."""
    body, lasts = {**body}, False
    for place in ("messages", "system", "tools"):
        if place in body:
            body[place], lasts = _lengthened(body[place], lasts=lasts)
    return body


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """Mark the tools, the system prompt and the last two of the user's messages.

    The provider looks for a prefix at most 20 blocks before a mark. So the second mark finds what
    the request before has cached, however many results came since.
    """
    left = _MOST - count_marks([body.get("tools"), body.get("system"), body["messages"]])
    body = {**body, "messages": [*body["messages"]]}
    places: list[tuple[Any, Any, str]] = [(body, "tools", ""), (body, "system", "")]
    of_user = [at for at, it in enumerate(body["messages"]) if it["role"] == "user"]
    places += [(body["messages"], at, "content") for at in (of_user[-1:] + of_user[-2:-1])]
    for holder, place, inner in places:
        given = holder[place][inner] if inner else holder.get(place)
        parts = _marked(given) if left > 0 and given else None
        if parts is not None:
            holder[place] = {**holder[place], inner: parts} if inner else parts
            left -= 1
    return body


def count_marks(value: Any) -> int:
    """Count the marks of blocks, messages or tools."""
    if isinstance(value, dict):
        inner = count_marks(value["content"]) if "content" in value else 0
        return inner + bool(value.get("cache_control"))
    return sum(map(count_marks, value)) if isinstance(value, list) else 0


def _marked(parts: Any) -> list[Block] | None:
    """Mark the last part, unless it is already marked or cannot be."""
    listed = [text(parts)] if isinstance(parts, str) else dicts(parts)
    # Thinking is sent byte-exact, so it can carry no mark.
    if not listed or "cache_control" in listed[-1] or listed[-1].get("type") in THINKING:
        return None
    return [*listed[:-1], {**listed[-1], "cache_control": _MARK}]


def _lengthened(value: Any, *, lasts: bool) -> tuple[Any, bool]:
    """Lengthen the marks of a value that is ahead of a mark of one hour, or holds one itself."""
    if not count_marks(value):
        return value, lasts
    if isinstance(value, list):
        made = []
        for one in reversed(value):
            new, lasts = _lengthened(one, lasts=lasts)
            made.append(new)
        return made[::-1], lasts
    mark = value.get("cache_control")
    if mark and lasts:
        value = {**value, "cache_control": {**mark, "ttl": _LONGEST}}
    lasts = lasts or (isinstance(mark, dict) and mark.get("ttl") == _LONGEST)
    if "content" in value:
        content, lasts = _lengthened(value["content"], lasts=lasts)
        value = {**value, "content": content}
    return value, lasts


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(it) for it in value]
    if not isinstance(value, dict):
        return value
    bare = {key: it for key, it in value.items() if key != "cache_control"}
    return {**bare, "content": _unmarked(bare["content"])} if "content" in bare else bare

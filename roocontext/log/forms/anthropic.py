"""The form of Anthropic's Messages API.

The list begins with the user and alternates. Each tool call is answered, and its result comes
directly after it. No message is empty, and thinking is sent byte-exact or not at all. No repair
puts anything before thinking: the provider compares it with what was sent before it.

Anthropic's cache breakpoints, at most four in a request, tools and system included.

An agent may set its own marks, and an agent that marks each message that it stores soon has more
than four. Then the newest are sent. A mark is no content, so a prefix without it is the same.

A mark of one hour must come ahead of all that last five minutes (documented), in the order of
tools, system and messages. What is ahead of such a mark is cached for an hour with it in any case,
so a mark there becomes one of an hour too.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn, alternating, arranged
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    Repairs,
    attached_to_error,
    fix_own,
    is_anthropic_image,
    kind_of,
    stored,
)
from roocontext.log.forms.repairs import Outgoing, Rule, model_of
from roocontext.log.forms.tools import anthropic_tools, convert
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


class _Anthropic:
    format = "anthropic"
    # maximhq/bifrost#5097, experientiallabs/experiential#801.
    tool_id: re.Pattern[str] | None = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    # Roles alternate, thinking never ends a message (tailcallhq/forgecode#2107), and nothing that a
    # repair adds may come before it (anthropics/claude-code#63284).
    merges = holds = apart = True
    lists = False

    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        model = model_of(messages) if model is None else model
        turns, repairs = arranged(
            self, messages, model=model, drop_thinking=drop_thinking, complete=complete
        )
        _report_lost_thinking(turns, repairs)
        fit_marks(turns, repairs)
        lined = list(alternating(turns, messages, repairs, complete=complete))
        if lined and lined[-1].role == "assistant":
            self._strip(lined[-1].parts[-1], repairs)
        out = [self._message(role, parts, repairs) for role, parts in lined]
        return Outgoing(out, repairs.listed())

    def body(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        system: Any = None,
        tools: Sequence[Any] = (),
        cache: bool = False,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": list(messages)}
        if system:
            body["system"] = system
        if tools:
            body["tools"] = convert(tools, self.format, anthropic_tools, self.tool_name)
        body = within_bounds(body)
        return longest_first(marked(body) if cache else body)

    def own(self, message: Message, *, equal: bool) -> OwnRow:
        blocks = [text(message.content)] if isinstance(message.content, str) else None
        pieces: list[OwnPiece] = []
        whole = True
        for block in dicts(message.content) if blocks is None else blocks:
            fixed, rules = self._fixed(message.role, block, equal=equal)
            kind = PartKind.OTHER if fixed is None else kind_of(fixed)
            pieces.append(OwnPiece(kind, fixed, fixed, rules))
            whole = whole and fixed is block
        return OwnRow(pieces, whole)

    def shows(self, image: Block) -> bool:
        return is_anthropic_image(image)

    def joins(self, *_: Sequence[OutgoingPart]) -> bool:
        return True

    def _fixed(self, role: str, block: Block, *, equal: bool) -> tuple[Block | None, list[Rule]]:
        if block.get("type") in THINKING and not (equal or role == "user"):
            return None, [Rule.THINKING]
        return fix_own(role, block)

    def _strip(self, last: OutgoingPart, repairs: Repairs) -> None:
        ending = last.block.get("text") if last.block["type"] == "text" else None
        if ending is not None and ending != ending.rstrip():
            last.compose(text=ending.rstrip())
            repairs.add(last.row, Rule.STRIPPED, last.index)

    def _message(
        self, role: str, parts: Sequence[OutgoingPart], repairs: Repairs
    ) -> dict[str, Any]:
        # A made message between two rows of the assistant: content must not be empty
        # (anthropics/claude-code#6774).
        if not parts:
            return {"role": role, "content": OPENING}
        blocks: list[Block] = []
        moved: list[Block] = []
        for part in parts:
            if extra := attached_to_error(part.block):
                repairs.add(part.row, Rule.MOVED, part.index)
                part.compose(content=[it for it in part.block["content"] if it not in extra])
                moved += extra
            blocks.append(part.block)
        results = sum(part.kind is PartKind.RESULT for part in parts)
        own = stored(parts)
        return {
            "role": role,
            # Results come before anything else in their message (documented).
            "content": [*blocks[:results], *moved, *blocks[results:]] if own is None else own,
        }


def _report_lost_thinking(turns: Sequence[OutgoingTurn], repairs: Repairs) -> None:
    """Report replies of the running tool loop that should begin with thinking and no longer do.

    Older models with thinking on refuse such a loop: "Expected thinking, but found tool_use".
    """
    for turn in _running(turns):
        first = turn.parts[0]
        lost = repairs.left_out(first.row, Rule.THINKING)
        if not first.row.is_own or any(index < first.index for index in lost):
            repairs.add(first.row, Rule.UNTHINKING)


def _running(turns: Sequence[OutgoingTurn]) -> Iterator[OutgoingTurn]:
    """The replies of the tool loop whose last results are to be answered now."""
    if not turns or turns[-1].role == "assistant" or not _are_results(turns[-1].parts[:1]):
        return
    for turn in reversed(turns[:-1]):
        if turn.role == "assistant":
            yield turn
        elif not _are_results(turn.parts):
            return


def _are_results(parts: Sequence[OutgoingPart]) -> bool:
    return all(part.kind is PartKind.RESULT for part in parts)


ANTHROPIC_FORM: Final = _Anthropic()

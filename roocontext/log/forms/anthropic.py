"""The form of Anthropic's Messages API.

The list begins with the user and alternates. Each tool call is answered, and its result comes
directly after it. No message is empty, and thinking is sent byte-exact or not at all. No repair
puts anything before thinking: the provider compares it with what was sent before it.

A request may have four cache breakpoints, tools and system included. If an agent marks each message
that it stores, the newest marks are sent. A mark is no content, so a prefix without it is the same.
A mark of one hour must come before all that last five minutes (documented), in the order of tools,
system and messages. What precedes such a mark is cached for an hour with it in any case, so a mark
there becomes one of an hour too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    Repairs,
    RequestState,
    attached_to_error,
    fix_own,
    is_anthropic_image,
    is_pdf,
    kind_of,
    stored,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import Function
from roocontext.log.readings import Block, calls
from roocontext.log.readings.anthropic import ANTHROPIC
from roocontext.log.readings.blocks import as_dict, dicts, texts

_MARK: Final = {"type": "ephemeral"}
# Documented; the caller's own marks count too.
_MOST: Final = 4
_LONGEST: Final = "1h"


class _Anthropic(ProviderForm):
    format = "anthropic"
    # maximhq/bifrost#5097, experientiallabs/experiential#801.
    tool_id = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    # Roles alternate, thinking never ends a message (tailcallhq/forgecode#2107), and nothing that a
    # repair adds may come before it (anthropics/claude-code#63284).
    alternates = holds = apart = True
    about_documents = ("title", "context")

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        repairs = state.repairs
        report_lost_thinking(turns, repairs)
        _fit_marks([part for turn in turns for part in turn.parts], repairs)
        if turns and turns[-1].role == "assistant":
            _strip(turns[-1].parts[-1], repairs)
        return [_message(turn, repairs) for turn in turns]

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        return [
            function.described("input_schema", strict=function.is_strict or None)
            for function in functions
        ]

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        room = _MOST - len(_marks([tools, system]))
        sent = [tools, system, _with_marks(messages, _newest(_marks(messages), room))]
        if cache:
            sent = _marked(*sent)
        tools, system, messages = _with_marks(sent, _longest_first(_marks(sent)))
        body: dict[str, Any] = {"messages": messages}
        if system:
            body["system"] = system
        return {**body, "tools": tools} if tools else body

    def own(self, message: Message, state: RequestState) -> OwnRow:
        keeps_thinking = message.role == "user" or state.keeps_thinking(message)
        pieces: list[OwnPiece] = []
        whole = True
        for block in ANTHROPIC.blocks(message.role, message.content)[1]:
            if block.get("type") in THINKING and not keeps_thinking:
                pieces.append(OwnPiece(PartKind.OTHER, None, None, [Rule.THINKING]))
                whole = False
                continue
            fixed, rules = fix_own(message.role, block)
            kind = PartKind.OTHER if fixed is None else kind_of(fixed)
            if fixed is None and message.role == "assistant" and calls([block]):
                pieces.append(OwnPiece(PartKind.UNSENDABLE_CALL, block, block, rules))
            else:
                pieces.append(OwnPiece(kind, fixed, fixed, rules))
            whole = whole and fixed is block
        return OwnRow(pieces, whole)

    def shows(self, media: Block) -> bool:
        return is_pdf(media) if media["type"] == "document" else is_anthropic_image(media)


def _fit_marks(parts: Sequence[OutgoingPart], repairs: Repairs) -> None:
    """Leave out all marks of the rows but the newest four, and put the longest first."""
    own = _marks([part.block for part in parts])
    marks = _longest_first(_newest(own, _MOST))
    for part in parts if own else ():
        block = _with_marks(part.block, marks)
        if block is not part.block:
            part.block, part.native = block, None
            repairs.add(part.row, Rule.FIELD, part.index)


def _marked(tools: list[Block], system: Any, messages: list[Block]) -> list[Any]:
    """Mark the tools, the system prompt and the last two of the user's messages.

    The provider looks for a prefix at most 20 blocks before a mark. So the second mark finds what
    the request before has cached, however many results came since.
    """
    sent = [tools, system, messages.copy()]
    left = _MOST - len(_marks(sent))
    of_user = [at for at, it in enumerate(messages) if it["role"] == "user"]
    places: list[tuple[Any, Any]] = [(sent, 0), (sent, 1)]
    for at in reversed(of_user[-2:]):
        sent[2][at] = {**messages[at]}
        places.append((sent[2][at], "content"))
    for holder, key in places:
        blocks = texts(holder[key]) if isinstance(holder[key], str) else dicts(holder[key])
        # A tool that is loaded later can carry no mark (Wei-Shaw/sub2api#4990).
        last = max((at for at, it in enumerate(blocks) if not it.get("defer_loading")), default=-1)
        # Thinking is sent byte-exact, so it can carry none either.
        is_markable = last >= 0 and blocks[last].get("type") not in THINKING
        if left > 0 and is_markable and "cache_control" not in blocks[last]:
            marked = {**blocks[last], "cache_control": _MARK}
            holder[key] = [*blocks[:last], marked, *blocks[last + 1 :]]
            left -= 1
    return sent


def _marks(value: Any) -> list[Any]:
    """The marks of blocks, messages or tools, in the order in which they are sent."""
    if isinstance(value, list):
        return [mark for item in value for mark in _marks(item)]
    if not isinstance(value, dict):
        return []
    inner = _marks(value["content"]) if "content" in value else []
    return [*inner, value["cache_control"]] if value.get("cache_control") else inner


def _with_marks(value: Any, marks: Iterator[Any]) -> Any:
    """Copy a value with these marks instead of its own; None is no mark.

    A value whose marks stay the same is returned as the same object.
    """
    if isinstance(value, list):
        items = [_with_marks(item, marks) for item in value]
        return value if all(map(is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    if (
        "content" in value
        and (content := _with_marks(value["content"], marks)) is not value["content"]
    ):
        value = {**value, "content": content}
    if not value.get("cache_control") or (mark := next(marks)) == value["cache_control"]:
        return value
    bare = {key: it for key, it in value.items() if key != "cache_control"}
    return bare if mark is None else {**bare, "cache_control": mark}


def _newest(marks: Sequence[Any], most: int) -> Iterator[Any]:
    """The newest of the marks, and None in place of the others."""
    dropped = len(marks) - max(most, 0)
    return (None if at < dropped else mark for at, mark in enumerate(marks))


def _longest_first(marks: Iterable[Any]) -> Iterator[Any]:
    """The marks; those before a mark of one hour become marks of one hour."""
    fitted: list[Any] = []
    is_long = False
    for mark in reversed([*marks]):
        is_long = is_long or as_dict(mark).get("ttl") == _LONGEST
        fitted.append({**mark, "ttl": _LONGEST} if isinstance(mark, dict) and is_long else mark)
    return iter(fitted[::-1])


def _strip(last: OutgoingPart, repairs: Repairs) -> None:
    ending = last.block.get("text") if last.block["type"] == "text" else None
    if ending is not None and ending != ending.rstrip():
        last.compose(text=ending.rstrip())
        repairs.add(last.row, Rule.STRIPPED, last.index)


def _message(turn: OutgoingTurn, repairs: Repairs) -> dict[str, Any]:
    # A fixed message between two rows of the assistant: content must not be empty
    # (anthropics/claude-code#6774).
    if not turn.parts:
        return {"role": turn.role, "content": OPENING}
    moved: list[Block] = []
    for part in turn.parts:
        if refused := attached_to_error(part.block):
            repairs.add(part.row, Rule.MOVED, part.index)
            part.compose(content=[it for it in part.block["content"] if it not in refused])
            moved += refused
    own = stored(turn.parts)
    if own is None:
        blocks = [part.block for part in turn.parts]
        results = sum(part.kind is PartKind.RESULT for part in turn.parts)
        # Results come before anything else in their message (documented).
        own = [*blocks[:results], *moved, *blocks[results:]]
    return {"role": turn.role, "content": own}


def report_lost_thinking(turns: Sequence[OutgoingTurn], repairs: Repairs) -> None:
    """Report replies of the running tool loop that should begin with thinking and no longer do.

    Older models with thinking on refuse such a loop: "Expected thinking, but found tool_use".
    """
    lost = repairs.first_left_out(Rule.THINKING)
    for turn in _running(turns):
        first = turn.parts[0]
        if not first.row.is_own or lost.get(first.row.message.seq, first.index) < first.index:
            repairs.add(first.row, Rule.UNTHINKING)


def _running(turns: Sequence[OutgoingTurn]) -> Iterator[OutgoingTurn]:
    """The replies of the tool loop whose last results are to be answered now."""
    last = turns[-1].parts[:1] if turns and turns[-1].role == "user" else []
    if not last or not _are_results(last):
        return
    for turn in reversed(turns[:-1]):
        if turn.role == "assistant":
            yield turn
        elif not _are_results(turn.parts):
            return


def _are_results(parts: Sequence[OutgoingPart]) -> bool:
    return all(part.kind is PartKind.RESULT for part in parts)


ANTHROPIC_FORM: Final = _Anthropic()

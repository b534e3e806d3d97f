"""The form of Anthropic's Messages API.

The list begins with the user and alternates. Each tool call is answered, and its result comes
directly after it. No message is empty, and thinking is sent byte-exact or not at all. No repair
puts anything before thinking: the provider compares it with what was sent before it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.alternate import alternating
from roocontext.log.forms.anthropic_blocks import attached_to_error, fix_own, is_anthropic_image
from roocontext.log.forms.arrange import OutgoingTurn, arranged
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.caching import fit_marks, longest_first, marked, within_bounds
from roocontext.log.forms.frames import OPENING
from roocontext.log.forms.models import model_of
from roocontext.log.forms.parts import (
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    Repairs,
    kind_of,
    stored,
)
from roocontext.log.forms.repairs import Outgoing, Rule
from roocontext.log.forms.settled import settled
from roocontext.log.forms.tools import anthropic_tools, convert
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import dicts, text


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
        untouched = settled(messages, model, drop_thinking)
        if untouched is not None and not (complete and _is_open(untouched)):
            return Outgoing(untouched, ())
        return self.repaired(messages, model=model, drop_thinking=drop_thinking, complete=complete)

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

    def repaired(
        self,
        messages: Sequence[Message],
        *,
        model: str | None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        """Compose by the general path, which `compose` takes if anything needs a repair."""
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


def _is_open(settled: Sequence[dict[str, Any]]) -> bool:
    """Whether the user does not speak last, so that a request needs more."""
    return not settled or settled[-1]["role"] != "user"


ANTHROPIC_FORM: Final = _Anthropic()

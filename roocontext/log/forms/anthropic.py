"""The outgoing form: what a provider accepts, made from whatever the log holds.

For any history the list begins with the user, alternates, has each tool result directly behind its
call and each call answered (only a call at the very end may wait), holds no empty message, and has
thinking byte-exact or not at all. The log is never touched: repair happens here, on the way out,
and every repair is told. A row that needs none goes out as the very object that is stored. What is
decided about a row depends on later rows as little as can be, because providers cache prefixes.

Blocks of one stored row go out in the order in which the provider sent them. No repair puts
anything before thinking: the provider compares it with what stood before it.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import THINKING, fix
from roocontext.log.forms.repairs import Repair, Rule
from roocontext.log.forms.settled import settled
from roocontext.log.pairs import pairs
from roocontext.log.readings import Block, calls, reader, results

OPENING: Final = "[The conversation continues from here.]"
"""The user's line before an assistant message that needs a user message in front of it."""

UNANSWERED: Final = "[No result was recorded for this call.]"
"""The result of a call that has none."""


@dataclass(frozen=True, slots=True)
class Sendable:
    """Messages that a provider accepts, and what was done to make them so, by seq."""

    messages: list[dict[str, Any]]
    repairs: tuple[Repair, ...]


def compose(messages: Sequence[Message]) -> Sendable:
    """Turn a view into what the Messages API accepts."""
    untouched = settled(messages)
    return repaired(messages) if untouched is None else Sendable(untouched, ())


def repaired(messages: Sequence[Message]) -> Sendable:
    """The same for any history; `compose` only calls it if something needs a repair."""
    outgoing = _Outgoing()
    rows = [outgoing.read(number, message) for number, message in enumerate(messages)]
    outgoing.answer(rows)
    outgoing.rename(rows)
    for row in rows:
        outgoing.add(row)
    return outgoing.finish()


@dataclass(slots=True, eq=False)
class _Row:
    """A message on its way out: as its reader showed it, and what is left of that."""

    number: int
    message: Message
    role: str
    blocks: list[Block]
    is_own: bool
    """Whether it is stored in the shape in which it goes out, so that its reading shows itself."""
    parts: list["_Part"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Part:
    """A block on its way out; a call knows its answer."""

    row: _Row
    index: int
    block: Block
    answer: "_Part | None" = None

    @property
    def kind(self) -> str:
        return str(self.block["type"])

    @property
    def is_thinking(self) -> bool:
        return self.kind in THINKING


@dataclass(frozen=True, slots=True)
class _Turn:
    role: str
    parts: list[_Part]

    def message(self) -> dict[str, Any]:
        return {"role": self.role, "content": self._stored() or [part.block for part in self.parts]}

    def _stored(self) -> object:
        """Find the stored content, if this is exactly one row and nothing of it was touched."""
        row = self.parts[0].row
        if not row.is_own or len(row.blocks) != len(self.parts):
            return None
        same = all(part.block is block for part, block in zip(self.parts, row.blocks, strict=True))
        return row.message.content if same else None


class _Outgoing:
    """The outgoing list while it grows, row by row, and what was repaired so far."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._repairs: list[Repair] = []
        self._due: set[_Part] = set()
        """The answers of the last assistant message's calls."""
        self._held: list[_Part] = []
        """Thinking at the end of the last row: it goes out if the assistant goes on."""

    def read(self, number: int, message: Message) -> _Row:
        """Read a row, without the blocks that cannot be sent and with the others fixed."""
        role, blocks = reader(message.format).blocks(message.role, message.content)
        row = _Row(number, message, role, blocks, _shows_itself(message.content, blocks))
        for index, block in enumerate(blocks):
            fixed, rules = fix(role, block)
            for rule in rules:
                self._tell(row, rule, index)
            if fixed is not None:
                row.parts.append(_Part(row, index, fixed))
        return row

    def answer(self, rows: Sequence[_Row]) -> None:
        """Link each call to its answer, and drop the results that answer none."""
        readings = [(row.role, [part.block for part in row.parts]) for row in rows]
        answers: set[_Part] = set()
        for pair in pairs(readings):
            answer = rows[pair.result[0]].parts[pair.result[1]]
            rows[pair.call[0]].parts[pair.call[1]].answer = answer
            answers.add(answer)
        called: set[str] = set()
        for row, (_, blocks) in zip(rows, readings, strict=True):
            called.update(tool_id for _, tool_id in calls(blocks))
            for index, tool_id in results(blocks):
                if row.parts[index] not in answers:
                    rule = Rule.DUPLICATE if tool_id in called else Rule.ORPHAN
                    self._tell(row, rule, row.parts[index].index)
            row.parts = [it for it in row.parts if it.kind != "tool_result" or it in answers]

    def rename(self, rows: Sequence[_Row]) -> None:
        """Give each call, and its answer, an id that a provider accepts and no other call has."""
        ids = _Ids()
        for call in (part for row in rows for part in row.parts if part.kind == "tool_use"):
            tool_id = ids.take(call.block["id"])
            if tool_id != call.block["id"]:
                self._rename(call, "id", tool_id)
                if call.answer is not None:
                    self._rename(call.answer, "tool_use_id", tool_id)

    def add(self, row: _Row) -> None:
        """Put a row at the end of the list."""
        if not row.parts:
            self._tell(row, Rule.EMPTY)
        elif row.role == "assistant":
            self._add_assistant(row)
        else:
            self._add_user(row)

    def finish(self) -> Sendable:
        """Close the list, which may end with calls that wait."""
        self._drop_held()
        messages: list[dict[str, Any]] = []
        for turn in self._turns:
            if turn.role == "assistant" and (not messages or messages[-1]["role"] == "assistant"):
                self._tell(turn.parts[0].row, Rule.APART if messages else Rule.OPENING)
                messages.append({"role": "user", "content": OPENING})
            messages.append(turn.message())
        order = sorted(self._repairs, key=lambda it: (it.seq, -1 if it.block is None else it.block))
        return Sendable(messages, tuple(order))

    def _tell(self, row: _Row, rule: Rule, block: int | None = None) -> None:
        # A foreign format may well have several messages in a row and other ids: to bring them
        # into this form is conversion, not repair.
        if row.is_own or rule not in (Rule.MERGED, Rule.RENAMED):
            self._repairs.append(Repair(row.message.seq, rule, block))

    def _rename(self, part: _Part, key: str, tool_id: str) -> None:
        part.block = {**part.block, key: tool_id}
        self._tell(part.row, Rule.RENAMED, part.index)

    def _is_last(self, role: str) -> bool:
        return bool(self._turns) and self._turns[-1].role == role

    def _add_assistant(self, row: _Row) -> None:
        if all(part.block["type"] not in THINKING for part in row.parts):
            self._place(row, row.parts, apart=False)
            return
        self._drop_held()
        last = max((at for at, part in enumerate(row.parts) if not part.is_thinking), default=-1)
        if last >= 0:
            self._place(row, row.parts[: last + 1], apart=True)
        self._held.extend(row.parts[last + 1 :])

    def _place(self, row: _Row, body: Sequence[_Part], *, apart: bool) -> None:
        """Add parts to the assistant's message, or begin one where thinking must come first."""
        held, self._held = self._held, []
        ends = self._turns[-1].parts[-1] if self._is_last("assistant") else None
        joins = ends is not None and not apart and (not held or held[0].row is ends.row)
        if joins or held:
            self._tell(row, Rule.MERGED)
        if not joins:
            if ends is not None and (answers := self._answers()):
                self._turns.append(_Turn("user", answers))
            self._turns.append(_Turn("assistant", []))
            self._due.clear()
        self._turns[-1].parts.extend([*held, *body])
        self._due.update(part.answer for part in body if part.answer is not None)

    def _add_user(self, row: _Row) -> None:
        if any(part.kind != "tool_result" or part in self._due for part in row.parts):
            self._drop_held()
            if self._is_last("user"):
                self._tell(row, Rule.MERGED)
            else:
                self._turns.append(_Turn("user", self._answers()))
        for part in row.parts:
            if part.kind != "tool_result":
                self._turns[-1].parts.append(part)
            elif part not in self._due or self._turns[-1].parts[-1].kind != "tool_result":
                self._tell(row, Rule.HOISTED, part.index)

    def _answers(self) -> list[_Part]:
        """Answer every call of the last message: as the log has it, then what is missing."""
        asked = self._turns[-1].parts if self._turns else []
        waiting = [part for part in asked if part.kind == "tool_use" and part.answer is None]
        for call in waiting:
            self._tell(call.row, Rule.UNANSWERED, call.index)
        given = sorted(self._due, key=lambda part: (part.row.number, part.index))
        return given + [_Part(call.row, call.index, _no_result(call.block)) for call in waiting]

    def _drop_held(self) -> None:
        for part in self._held:
            self._tell(part.row, Rule.TRAILING, part.index)
        self._held.clear()


class _Ids:
    """Tool ids that no earlier call has; what comes later never changes them."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._suffixes: defaultdict[str, count[int]] = defaultdict(lambda: count(2))

    def take(self, wanted: str) -> str:
        """Give the id itself, or else the nearest one that can be had."""
        tool_id = base = re.sub(r"[^a-zA-Z0-9_-]", "_", wanted) or "call"
        while tool_id in self._taken:
            tool_id = f"{base}_{next(self._suffixes[base])}"
        self._taken.add(tool_id)
        return tool_id


def _shows_itself(content: object, blocks: Sequence[Block]) -> bool:
    if isinstance(content, list):
        return len(content) == len(blocks) and all(map(operator.is_, content, blocks))
    return blocks == [{"type": "text", "text": content}]


def _no_result(call: Block) -> Block:
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    return {**result, "content": UNANSWERED, "is_error": True}

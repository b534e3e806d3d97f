"""The order in which parts go out, the same for every provider: turns, calls and their answers.

Each result goes directly behind the turn that called, and each call has one: a late result is moved
up, a missing one is made, one without a call becomes a text that quotes it. What is decided about a
row depends on later rows as little as possible, because providers cache prefixes.

Parts of one stored row go out in the order in which the provider sent them.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import fix
from roocontext.log.forms.frames import no_result, orphan
from roocontext.log.forms.identifiers import Ids, name_for
from roocontext.log.forms.parts import Kind, Part, Repairs, Row, Rows, Shape
from roocontext.log.forms.repairs import Rule
from roocontext.log.pairs import links_of, pairs


@dataclass(frozen=True, slots=True)
class Turn:
    """Parts of one side that follow each other, of one row or of several."""

    role: str
    parts: list[Part]

    @property
    def waiting(self) -> list[Part]:
        """The calls that nothing answers."""
        return [it for it in self.parts if it.kind is Kind.CALL and it.answer is None]


class Order(Shape, Protocol):
    """What arranging has to know of a form."""

    tool_id: re.Pattern[str] | None
    """The ids that the provider accepts; None if it tells calls apart by their order."""
    tool_name: re.Pattern[str]
    merges: bool
    """Whether rows of one role in a row become one message."""
    holds: bool
    """Whether thinking has to be followed by something else of the assistant's."""
    apart: bool
    """Whether nothing of the same turn may come before the first thinking of a row."""

    def joins(self, turn: Sequence[Part], row: Sequence[Part], /) -> bool:
        """Whether an assistant's row goes into the assistant's turn before it."""


def arranged(
    order: Order,
    messages: Sequence[Message],
    *,
    model: str | None,
    drop_thinking: Collection[int],
    complete: bool,
) -> tuple[list[Turn], Repairs]:
    """Read and arrange the rows; with `complete`, calls at the very end are answered too."""
    repairs = Repairs()
    read = Rows(order, model, drop_thinking, repairs).read
    rows = [read(number, message) for number, message in enumerate(messages)]
    _link(rows, repairs)
    _rename(order, rows, repairs)
    turns = _Turns(order, repairs)
    for row in rows:
        turns.add(row)
    return turns.finish(complete=complete), repairs


def _link(rows: Sequence[Row], repairs: Repairs) -> None:
    """Link each call to its answer; what answers no call is quoted, a second answer is dropped."""
    tools = (Kind.CALL, Kind.RESULT)
    shown = [[part for part in row.parts if part.kind in tools] for row in rows]
    readings = [
        (row.role, [part.block for part in parts]) for row, parts in zip(rows, shown, strict=True)
    ]
    links = links_of((row.message.seq, row.message.answers) for row in rows)
    for pair in pairs(readings, links):
        call, answer = shown[pair.call[0]][pair.call[1]], shown[pair.result[0]][pair.result[1]]
        call.answer, answer.call = answer, call
    called: set[str] = set()
    for row in rows:
        kept: list[Part] = []
        for part in row.parts:
            if part.kind is Kind.CALL:
                called.add(part.block["id"])
            if part.kind is not Kind.RESULT or part.call is not None:
                kept.append(part)
            elif part.block["tool_use_id"] in called:
                repairs.add(row, Rule.DUPLICATE, part.index)
            else:
                repairs.add(row, Rule.ORPHAN, part.index)
                quoted = (fix("user", block)[0] for block in orphan(part.block))
                kept += [Part(row, part.index, Kind.OTHER, it) for it in quoted if it is not None]
        row.parts = kept


def _rename(order: Order, rows: Sequence[Row], repairs: Repairs) -> None:
    """Give each call, and its answer, an id and a name that the provider accepts."""
    ids = Ids(order.tool_id) if order.tool_id else None
    for call in (part for row in rows for part in row.parts if part.kind is Kind.CALL):
        own, named = call.block["id"], call.block["name"]
        tool_id = ids.take(own, call.row.message.seq, call.index) if ids else own
        name = name_for(named, order.tool_name)
        if (tool_id, name) != (own, named):
            call.compose(id=tool_id, name=name)
            repairs.add(call.row, Rule.RENAMED, call.index)
            if call.answer is not None and tool_id != own:
                call.answer.compose(tool_use_id=tool_id)
                repairs.add(call.answer.row, Rule.RENAMED, call.answer.index)


class _Turns:
    """The turns while they grow, row by row."""

    def __init__(self, order: Order, repairs: Repairs) -> None:
        self._order = order
        self._repairs = repairs
        self._turns: list[Turn] = []
        self._due: set[Part] = set()
        """The answers of the last assistant turn's calls."""
        self._held: list[Part] = []
        """Thinking at the end of the last row: it goes out if the assistant goes on."""

    def add(self, row: Row) -> None:
        """Put a row at the end."""
        if not row.parts:
            self._repairs.add(row, Rule.EMPTY)
        elif row.role == "assistant":
            self._add_assistant(row)
        else:
            self._add_user(row)

    def finish(self, *, complete: bool) -> list[Turn]:
        """End the last turn, whose calls may wait unless the list has to be complete."""
        self._drop_held()
        if complete and self._is_last("assistant") and (answers := self._answers()):
            self._turns.append(Turn("user", answers))
        return self._turns

    def _is_last(self, role: str) -> bool:
        return bool(self._turns) and self._turns[-1].role == role

    def _add_assistant(self, row: Row) -> None:
        thinks = [part.kind is Kind.THINKING for part in row.parts]
        if not self._order.holds or not any(thinks):
            self._place(row, row.parts, apart=False)
            return
        last = max((at for at, thinking in enumerate(thinks) if not thinking), default=-1)
        if self._order.apart:
            self._drop_held()
        if last >= 0:
            self._place(row, row.parts[: last + 1], apart=self._order.apart)
        self._held.extend(row.parts[last + 1 :])

    def _place(self, row: Row, body: Sequence[Part], *, apart: bool) -> None:
        """Add parts to the assistant's turn, or begin one."""
        held, self._held = self._held, []
        turn = self._turns[-1].parts if self._is_last("assistant") else None
        joins = turn is not None and not apart and self._order.joins(turn, body)
        if self._order.apart and held and turn is not None and held[0].row is not turn[-1].row:
            joins = False
        if (joins or held) and self._order.merges:
            self._repairs.add(row, Rule.MERGED)
        if not joins:
            if turn is not None and (answers := self._answers()):
                self._turns.append(Turn("user", answers))
            self._turns.append(Turn("assistant", []))
            self._due.clear()
        self._turns[-1].parts.extend([*held, *body])
        self._due.update(part.answer for part in body if part.answer is not None)

    def _add_user(self, row: Row) -> None:
        if any(part.kind is not Kind.RESULT or part in self._due for part in row.parts):
            self._drop_held()
            if not self._is_last("user"):
                self._turns.append(Turn("user", self._answers()))
            elif self._order.merges:
                self._repairs.add(row, Rule.MERGED)
        for part in row.parts:
            if part.kind is not Kind.RESULT:
                self._turns[-1].parts.append(part)
            elif part not in self._due or self._turns[-1].parts[-1].kind is not Kind.RESULT:
                self._repairs.add(row, Rule.HOISTED, part.index)

    def _answers(self) -> list[Part]:
        """Answer every call of the last turn: as the log has it, then what is missing."""
        given = sorted(self._due, key=lambda part: (part.row.number, part.index))
        for call in self._turns[-1].waiting if self._turns else ():
            self._repairs.add(call.row, Rule.UNANSWERED, call.index)
            made = Part(call.row, call.index, Kind.RESULT, no_result(call.block), call=call)
            call.answer = made
            given.append(made)
        return given

    def _drop_held(self) -> None:
        for part in self._held:
            self._repairs.add(part.row, Rule.TRAILING, part.index)
        self._held.clear()

"""The order in which parts are sent, the same for every provider: turns, calls and their answers.

Each call has one result, directly after the turn with the call: a late result is moved up, a
missing one is made, and one without a call becomes a text that quotes it. Decisions about a row
depend on later rows as little as possible, because providers cache prefixes.

Parts of one stored row are sent in the order in which the provider sent them.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import fix
from roocontext.log.forms.frames import no_result, orphan
from roocontext.log.forms.identifiers import CallIds, name_for
from roocontext.log.forms.parts import (
    OutgoingPart,
    OutgoingRow,
    OutgoingRows,
    PartKind,
    PartReader,
    Repairs,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.server_tools import drop_separated, waits
from roocontext.log.pairs import links_of, pairs


@dataclass(frozen=True, slots=True)
class OutgoingTurn:
    """Consecutive parts of one side, from one row or several; without parts, the fixed line."""

    role: str
    parts: list[OutgoingPart]

    @property
    def waiting(self) -> list[OutgoingPart]:
        """The calls without an answer."""
        return [it for it in self.parts if it.kind is PartKind.CALL and it.answer is None]


class Order(PartReader, Protocol):
    """The properties of a form that the order depends on."""

    tool_id: re.Pattern[str] | None
    """The ids that the provider accepts; None if it distinguishes calls by their order."""
    tool_name: re.Pattern[str]
    merges: bool
    """Whether consecutive rows of one role become one message."""
    lists: bool
    """Whether a turn is a list of items, in which rows that join stay apart."""
    holds: bool
    """Whether something else of the assistant's has to follow its thinking."""
    apart: bool
    """Whether nothing of the same turn may come before the first thinking of a row."""

    def joins(self, turn: Sequence[OutgoingPart], row: Sequence[OutgoingPart], /) -> bool:
        """Whether an assistant's row joins the assistant's turn before it."""


def arranged(
    order: Order,
    messages: Sequence[Message],
    *,
    model: str | None,
    drop_thinking: Collection[int],
    complete: bool,
) -> tuple[list[OutgoingTurn], Repairs]:
    """Read and arrange the rows; with `complete`, calls at the very end are answered too."""
    repairs = Repairs()
    read = OutgoingRows(order, model, drop_thinking, repairs).read
    rows = [read(number, message) for number, message in enumerate(messages)]
    _link(rows, repairs)
    drop_separated(rows, repairs)
    _rename(order, rows, repairs)
    turns = _Turns(order, repairs)
    for row in rows:
        turns.add(row)
    return turns.finish(complete=complete), repairs


def _link(rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Link each call to its answer. Quote answers without a call; drop second answers."""
    tools = (PartKind.CALL, PartKind.RESULT)
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
        # Decided by the rows before it alone: a call that comes later does not change what was
        # sent.
        kept: list[OutgoingPart] = []
        for part in row.parts:
            if part.kind is PartKind.CALL:
                called.add(part.block["id"])
            if part.kind is not PartKind.RESULT or part.call is not None:
                kept.append(part)
            elif part.block["tool_use_id"] in called:
                repairs.add(row, Rule.DUPLICATE, part.index)
            else:
                repairs.add(row, Rule.ORPHAN, part.index)
                quoted = (fix("user", block)[0] for block in orphan(part.block))
                kept += [
                    OutgoingPart(row, part.index, PartKind.OTHER, it)
                    for it in quoted
                    if it is not None
                ]
        row.parts = kept


def _rename(order: Order, rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Give each call, and its answer, an id and a name that the provider accepts."""
    ids = CallIds(order.tool_id) if order.tool_id else None
    for call in (part for row in rows for part in row.parts if part.kind is PartKind.CALL):
        name = name_for(call.block["name"], order.tool_name)
        if name != call.block["name"]:
            call.compose(name=name)
            repairs.add(call.row, Rule.NAME, call.index)
        if ids is None:
            continue
        tool_id = ids.take(call.block["id"], call.row.message.seq, call.index)
        for part, key in ((call, "id"), (call.answer, "tool_use_id")):
            if part is not None and part.block[key] != tool_id:
                part.compose(**{key: tool_id})
                repairs.add(part.row, Rule.RENAMED, part.index)


class _Turns:
    """The turns while they grow, row by row."""

    def __init__(self, order: Order, repairs: Repairs) -> None:
        self._order = order
        self._repairs = repairs
        self._turns: list[OutgoingTurn] = []
        self._due: set[OutgoingPart] = set()
        """The answers of the last assistant turn's calls."""
        self._held: list[OutgoingPart] = []
        """Thinking at the end of the last row: it is sent only if the assistant continues."""

    def add(self, row: OutgoingRow) -> None:
        """Put a row at the end."""
        if not row.parts:
            self._repairs.add(row, Rule.EMPTY)
        elif row.role == "assistant":
            self._add_assistant(row)
        else:
            self._add_user(row)

    def finish(self, *, complete: bool) -> list[OutgoingTurn]:
        """End the last turn, whose calls may wait unless the list has to be complete."""
        self._drop_held()
        if complete and self._is_last("assistant") and (answers := self._answers()):
            self._turns.append(OutgoingTurn("user", answers))
        return self._turns

    def _is_last(self, role: str) -> bool:
        return bool(self._turns) and self._turns[-1].role == role

    def _add_assistant(self, row: OutgoingRow) -> None:
        thinks = [part.kind is PartKind.THINKING for part in row.parts]
        if not self._order.holds or not any(thinks):
            self._place(row, row.parts, apart=False)
            return
        last = max((at for at, thinking in enumerate(thinks) if not thinking), default=-1)
        if self._order.apart:
            self._drop_held()
        if last >= 0:
            self._place(row, row.parts[: last + 1], apart=self._order.apart)
        self._held.extend(row.parts[last + 1 :])

    def _place(self, row: OutgoingRow, body: Sequence[OutgoingPart], *, apart: bool) -> None:
        """Add parts to the assistant's turn, or begin one."""
        if self._is_last("assistant") and self._was_asked_behind(row):
            self._drop_held()
            self._turns.append(OutgoingTurn("user", self._answers()))
            if not self._turns[-1].parts:
                self._repairs.add(row, Rule.APART)
        held, self._held = self._held, []
        turn = self._turns[-1].parts if self._is_last("assistant") else None
        joins = turn is not None and not apart and self._order.joins(turn, body)
        if self._order.apart and held and turn is not None and held[0].row is not turn[-1].row:
            joins = False
        if turn is not None and apart and waits(turn):
            joins = True  # the provider continues its own message, behind its earlier words
        if (joins or held) and not self._order.lists:
            self._repairs.add(row, Rule.MERGED)
        if not joins:
            if turn is not None and (answers := self._answers()):
                self._turns.append(OutgoingTurn("user", answers))
            self._turns.append(OutgoingTurn("assistant", []))
            self._due.clear()
        self._turns[-1].parts.extend([*held, *body])
        self._due.update(part.answer for part in body if part.answer is not None)

    def _was_asked_behind(self, row: OutgoingRow) -> bool:
        """Whether the request for this reply ended with the last turn, and so with a user line.

        If a tool of the provider was running, that turn was sent back as it was, to be continued.
        """
        asked_at, parts = row.message.asked_at, self._turns[-1].parts
        return asked_at is not None and parts[-1].row.message.seq <= asked_at and not waits(parts)

    def _add_user(self, row: OutgoingRow) -> None:
        if any(part.kind is not PartKind.RESULT or part in self._due for part in row.parts):
            self._drop_held()
            if not self._is_last("user"):
                self._turns.append(OutgoingTurn("user", self._answers()))
            elif self._order.merges:
                self._repairs.add(row, Rule.MERGED)
        for part in row.parts:
            if part.kind is not PartKind.RESULT:
                self._turns[-1].parts.append(part)
            elif part not in self._due or self._turns[-1].parts[-1].kind is not PartKind.RESULT:
                self._repairs.add(row, Rule.HOISTED, part.index)

    def _answers(self) -> list[OutgoingPart]:
        """Answer every call of the last turn: first with stored results, then with made ones."""
        # In the order in which the tools answered: a later answer leaves the earlier ones where
        # they were.
        given = sorted(self._due, key=lambda part: (part.row.number, part.index))
        for call in self._turns[-1].waiting if self._turns else ():
            self._repairs.add(call.row, Rule.UNANSWERED, call.index)
            made = OutgoingPart(
                call.row, call.index, PartKind.RESULT, no_result(call.block), call=call
            )
            call.answer = made
            given.append(made)
        return given

    def _drop_held(self) -> None:
        for part in self._held:
            self._repairs.add(part.row, Rule.TRAILING, part.index)
        self._held.clear()

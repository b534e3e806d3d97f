"""The order in which parts are sent, the same for every provider: turns, calls and their answers.

Each call has one result, directly after the turn with the call: a late result is moved up, a
missing one is made, and one without a call becomes a text that quotes it. Decisions about a row
depend on later rows as little as possible, because providers cache prefixes.

Parts of one stored row are sent in the order in which the provider sent them.

Tools that Anthropic runs itself: a call and its result are sent together or not at all.

The result is in the same reply, or in a later one of the same turn of the model: after a pause, or
after results that the call itself asked the agent for. Only the last turn may still wait for it.

Turns that alternate and begin with the user, for the providers that require it.

The user message after an assistant message that comes last in a request.

Thinking that is bound to what was sent before it.

Anthropic's newer models refuse a thinking block behind another prefix than the one it was made for:
other messages, another system prompt or other tools. `binds_thinking` says which models do.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, Protocol

from roocontext.log.entries import BlockRef, Control, Message, Range
from roocontext.log.forms.block_rules import THINKING, fix
from roocontext.log.forms.compacted import readable_by
from roocontext.log.forms.parts import (
    OutgoingPart,
    OutgoingRow,
    OutgoingRows,
    PartKind,
    PartReader,
    Repairs,
    attached_to_error,
    no_result,
    orphan,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import CallIds, name_for
from roocontext.log.pairs import links_of, pairs
from roocontext.log.readings.blocks import dicts
from roocontext.log.spans import clearings_of, spans_of, visible_ranges

_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_RESULT: Final = re.compile(r"\w+_tool_result")


def drop_separated(rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Leave out calls without a result, unless the last turn waits for it; and other results."""
    turns = list(_turns(rows))
    for turn in turns:
        waiting, separated = _pair([part for row in turn for part in row.parts])
        if turn is not turns[-1]:
            separated |= waiting
        for part in separated:
            repairs.add(part.row, Rule.SEPARATED, part.index)
        for row in turn if separated else ():
            row.parts = [part for part in row.parts if part not in separated]


def waits(parts: Sequence[OutgoingPart]) -> bool:
    """Whether the provider has not yet given the result of a call of its own."""
    return bool(_pair(parts)[0])


def is_server_tool(kind: str) -> bool:
    """Whether this is the type of such a call or result."""
    return kind in _CALLS or bool(_RESULT.fullmatch(kind))


def _turns(rows: Sequence[OutgoingRow]) -> Iterator[list[OutgoingRow]]:
    """The rows between the user's own words, or images that cannot stay in a failed result."""
    turn: list[OutgoingRow] = []
    for row in rows:
        if row.role == "user" and any(map(_speaks, row.parts)):
            yield turn
            turn = []
        turn.append(row)
    yield turn


def _speaks(part: OutgoingPart) -> bool:
    return part.kind is not PartKind.RESULT or bool(attached_to_error(part.block))


def _pair(parts: Sequence[OutgoingPart]) -> tuple[set[OutgoingPart], set[OutgoingPart]]:
    """The calls that have no result, and the parts that can have no partner."""
    waiting: dict[object, OutgoingPart] = {}
    separated: set[OutgoingPart] = set()
    for part in parts:
        if part.kind is not PartKind.OTHER:
            continue
        kind = part.block.get("type", "")
        if kind in _CALLS:
            if earlier := waiting.pop(part.block.get("id"), None):
                separated.add(earlier)  # a continued reply may repeat the call
            waiting[part.block.get("id")] = part
        elif _RESULT.fullmatch(kind) and not waiting.pop(part.block.get("tool_use_id"), None):
            separated.add(part)
    return set(waiting.values()), separated


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
    shown, uncompacted = readable_by(messages, order.format, model)
    repairs = Repairs(uncompacted)
    read = OutgoingRows(order, model, drop_thinking, repairs).read
    rows = [read(number, message) for number, message in enumerate(shown)]
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


def _is_compaction(part: OutgoingPart) -> bool:
    piece = part.native if isinstance(part.native, dict) else part.block
    return str(piece.get("type")).startswith("compaction")


def close(turns: Sequence[OutgoingTurn], messages: Sequence[Message], repairs: Repairs) -> bool:
    """Whether a request with these turns needs a user message at its end; note the repair.

    A reply that waits for a tool of the provider's is sent back as it is.
    """
    if turns and (turns[-1].role == "user" or waits(turns[-1].parts)):
        return False
    if turns and _is_compaction(turns[-1].parts[-1]):
        return False  # the provider continues from it
    if messages:
        end = OutgoingRow(0, messages[-1], "user", is_own=True, is_whole=False, pieces=0)
        repairs.add(end, Rule.CLOSING)
    return True


class OutgoingLine(NamedTuple):
    """A role and its parts; without parts, the fixed user message."""

    role: str
    parts: Sequence[OutgoingPart]


def alternating(
    turns: Sequence[OutgoingTurn], messages: Sequence[Message], repairs: Repairs, *, complete: bool
) -> Iterator[OutgoingLine]:
    """Insert a user message before the assistant where one is needed.

    With `complete`, also after an assistant message that comes last.
    """
    last = "assistant"
    first = True
    for turn in turns:
        # A compaction stands for the user's messages too.
        opens = first and _is_compaction(turn.parts[0])
        if turn.role == "assistant" and last == "assistant" and not opens:
            repairs.add(turn.parts[0].row, Rule.OPENING if first else Rule.APART)
            yield OutgoingLine("user", ())
        yield OutgoingLine(turn.role, turn.parts)
        last, first = turn.role, False
    if complete and close(turns, messages, repairs):
        yield OutgoingLine("user", ())


def unbound(
    messages: Sequence[Message],
    controls: Sequence[Control],
    seq: int,
    is_same_frame: Callable[[int], bool],
) -> frozenset[int]:
    """The rows of a view right after `seq` whose thinking was made behind another prefix.

    `is_same_frame` says whether the frame at a seq is the one that is sent now.
    """

    @cache
    def at(last: int) -> tuple[tuple[Range, ...], dict[BlockRef, int]]:
        then = [control for control in controls if control.seq <= last]
        cleared = {place: it.seq for place, it in clearings_of(then, last).items()}
        return tuple(visible_ranges(spans_of(then, last), last)), cleared

    def is_bound(index: int) -> bool:
        """Whether the rows before it are those of the view that was read for it."""
        row = messages[index]
        # Without a recorded request, all before the reply is taken to have been read.
        asked_at = row.seq - 1 if row.asked_at is None else row.asked_at
        if not is_same_frame(asked_at):
            return False
        before = [message.seq for message in messages[:index]]
        # A message that came while the model was answering was not before its thinking.
        if any(one > asked_at for one in before):
            return False
        if not any(control.seq > asked_at for control in controls):
            return True
        (shown, cleared), (shown_now, cleared_now) = at(asked_at), at(seq)
        rows = set(before)
        if _of(cleared, rows) != _of(cleared_now, rows):
            return False
        return _joined(shown) == _joined(_until(shown_now, row.seq, asked_at))

    thinking = (index for index, message in enumerate(messages) if _thinks(message))
    return frozenset(messages[index].seq for index in thinking if not is_bound(index))


def _thinks(message: Message) -> bool:
    return any(block.get("type") in THINKING for block in dicts(message.content))


def _of(cleared: dict[BlockRef, int], rows: set[int]) -> dict[BlockRef, int]:
    return {place: by for place, by in cleared.items() if place[0] in rows}


def _until(ranges: Sequence[Range], row: int, last: int) -> list[Range]:
    """The ranges of a view before a row, as far as they hold entries up to `last`."""
    found = []
    for lo, hi in ranges:
        is_end = lo <= row <= hi
        end = min(row - 1 if is_end else hi, last)
        if lo <= end:
            found.append((lo, end))
        if is_end:
            break
    return found


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """The ranges with those that follow each other as one."""
    joined: list[Range] = []
    for lo, hi in ranges:
        if joined and joined[-1][1] + 1 == lo:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return joined

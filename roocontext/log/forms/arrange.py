"""The order in which parts are sent, the same for every provider: turns, calls and their answers.

Each call has one result, directly after the turn with the call: a late result is moved up, a
missing one is made, and one without a call becomes a text that quotes it. Decisions about a row
depend on later rows as little as possible, because providers cache prefixes. Parts of one stored
row are sent in the order in which the provider sent them.

A call of a tool that Anthropic runs itself is sent together with its result or not at all. The
result is in the same reply, or in a later one of the same turn of the model: after a pause, or
after results that the call itself asked the agent for. Only the last turn may still wait for it.

Where roles must alternate, a fixed user message is inserted before an assistant message that needs
one, and in a request also after an assistant message that comes last.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import fix
from roocontext.log.forms.compacted import readable_by
from roocontext.log.forms.parts import (
    OutgoingPart,
    OutgoingRow,
    OutgoingRows,
    PartKind,
    PartReader,
    Repairs,
    RequestState,
    attached_to_error,
    no_result,
    orphan,
)
from roocontext.log.forms.repairs import Outgoing, Rule, model_of
from roocontext.log.forms.tools import (
    CallIds,
    Function,
    convert,
    name_for,
    replaced_names,
)
from roocontext.log.pairs import links_of, pairs, unpaired
from roocontext.log.readings import Block


@dataclass(frozen=True, slots=True)
class OutgoingTurn:
    """Consecutive parts of one side, from one row or several; without parts, the fixed message."""

    role: str
    parts: list[OutgoingPart]

    @property
    def waiting(self) -> list[OutgoingPart]:
        """The calls without an answer."""
        return [part for part in self.parts if part.kind is PartKind.CALL and part.answer is None]


class ProviderForm(PartReader, Protocol):
    """The base of the built-in forms: the rules of a provider that the order depends on."""

    tool_id: re.Pattern[str] | None = None
    """The ids that the provider accepts; None if it distinguishes calls by their order."""
    tool_name: ClassVar[re.Pattern[str]]
    alternates: ClassVar[bool] = False
    """True if consecutive rows of one role become one message, and the user begins."""
    lists: ClassVar[bool] = False
    """True if a turn is a list of items, in which rows that join stay separate."""
    holds: ClassVar[bool] = False
    """True if something else of the assistant has to follow its thinking."""
    apart: ClassVar[bool] = False
    """True if nothing of the same turn may come before the first thinking of a row."""

    def for_request(self, messages: Sequence[Message], state: RequestState) -> "ProviderForm":
        """The form for one request; here it is the same for all."""
        return self

    def joins(self, turn: Sequence[OutgoingPart], row: Sequence[OutgoingPart], /) -> bool:
        """Return True if an assistant's row joins the assistant's turn before it."""
        return True

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        """Make the messages of these turns."""

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        """Make the definitions of functions that follow each other."""

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        """Make the SDK's arguments of messages, a system prompt and converted tools."""

    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        """Compose the messages of a view for a model, by default that of its newest reply."""
        model = model_of(messages) if model is None else model
        readable, left_out = readable_by(messages, self.format, model)
        state = RequestState(model, drop_thinking, Repairs(left_out))
        form = self.for_request(readable, state)
        repairs, read = state.repairs, OutgoingRows(form, state).read
        rows = [read(number, message) for number, message in enumerate(readable)]
        _link(rows, repairs)
        _drop_separated(rows, repairs)
        _rename(form, rows, repairs)
        arranged = _Turns(form, repairs)
        for row in rows:
            arranged.add(row)
        made = form.messages(arranged.finish(rows, complete=complete), state)
        return Outgoing(made, repairs.listed())

    def replaced_names(self, tools: Sequence[Any]) -> list[tuple[int, str, str]]:
        """The names of tools that are replaced: their index, the name and the new one."""
        return list(replaced_names(tools, self.tool_name))

    def body(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        system: Any = None,
        tools: Sequence[Any] = (),
        cache: bool = False,
    ) -> dict[str, Any]:
        """Make the keyword arguments for the SDK from composed messages."""
        converted = convert(tools, self.format, self.made_tools, self.tool_name)
        return self.framed(list(messages), system, converted, cache=cache)


def _drop_separated(rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Leave out calls without a result, unless the last turn waits for it; and other results."""
    if not any("_tool_" in part.block.get("type", "") for row in rows for part in row.parts):
        return  # most agents use no tools of the provider
    turns = list(_turns(rows))
    for turn in turns:
        waiting, separated = _pair([part for row in turn for part in row.parts])
        is_last = turn is turns[-1]
        separated |= {part for part in waiting if not is_last or _is_over(turn, part.row)}
        for part in separated:
            repairs.add(part.row, Rule.SEPARATED, part.index)
        for row in turn if separated else ():
            row.parts = [part for part in row.parts if part not in separated]


def _is_over(turn: Sequence[OutgoingRow], asked: OutgoingRow) -> bool:
    """Return True if a reply from `asked` on neither waits for a tool nor calls one.

    The last reply alone does not decide: a later one would bring back what was left out before.
    """
    replies = (row.parts for row in turn if row.number >= asked.number and row.role == "assistant")
    return any(
        parts and not waits(parts) and all(part.kind is not PartKind.CALL for part in parts)
        for parts in replies
    )


def waits(parts: Sequence[OutgoingPart]) -> bool:
    """Return True if the result of a tool that the provider runs is still missing."""
    return bool(_pair(parts)[0])


def _turns(rows: Sequence[OutgoingRow]) -> Iterator[list[OutgoingRow]]:
    """Group the rows: a new turn begins with the user's words or an image of a failed result."""
    turn: list[OutgoingRow] = []
    for row in rows:
        # An image cannot stay in a failed result: it is sent as the user's.
        spoken = (
            part.kind is not PartKind.RESULT or attached_to_error(part.block) for part in row.parts
        )
        if row.role == "user" and any(spoken):
            yield turn
            turn = []
        turn.append(row)
    yield turn


def _pair(parts: Sequence[OutgoingPart]) -> tuple[set[OutgoingPart], set[OutgoingPart]]:
    """The calls that have no result, and the parts that can have no partner."""
    others = [part for part in parts if part.kind is PartKind.OTHER]
    waiting, separated = unpaired([part.block for part in others])
    return {others[index] for index in waiting}, {others[index] for index in separated}


def _continues(parts: Sequence[OutgoingPart]) -> bool:
    """Return True if the provider continues this turn of the assistant, sent back as it is.

    It waits for a tool of the provider, or ends with a compaction.
    """
    return waits(parts) or _is_compaction(parts[-1])


def _is_compaction(part: OutgoingPart) -> bool:
    """Return True for a compaction, unless it failed: then it has no content."""
    piece = part.native if isinstance(part.native, dict) else part.block
    is_made = piece.get("content") or piece.get("encrypted_content")
    return bool(is_made) and str(piece.get("type")).startswith("compaction")


def _link(rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Link each call to its answer. Quote answers without a call; drop second answers."""
    tools = (PartKind.CALL, PartKind.UNSENDABLE_CALL, PartKind.RESULT)
    rows = [row for row in rows if any(part.kind in tools for part in row.parts)]
    tool_parts = [[part for part in row.parts if part.kind in tools] for row in rows]
    readings = [
        (row.role, [part.block for part in parts])
        for row, parts in zip(rows, tool_parts, strict=True)
    ]
    links = links_of((row.message.seq, row.message.answers) for row in rows)
    uncalled: set[OutgoingPart] = set()
    for pair in pairs(readings, links):
        call, answer = (
            tool_parts[pair.call[0]][pair.call[1]],
            tool_parts[pair.result[0]][pair.result[1]],
        )
        if call.kind is PartKind.CALL:
            call.answer, answer.call = answer, call
        else:
            uncalled.add(answer)
    called: set[str] = set()
    for row in rows:
        # Decided by the rows before it alone: a call that comes later does not change what was
        # sent.
        kept: list[OutgoingPart] = []
        for part in row.parts:
            if part.kind is PartKind.UNSENDABLE_CALL:
                continue
            if part.kind is PartKind.CALL:
                called.add(part.block["id"])
            if part.kind is not PartKind.RESULT or part.call is not None:
                kept.append(part)
            elif part.block["tool_use_id"] in called and part not in uncalled:
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


def _rename(form: ProviderForm, rows: Sequence[OutgoingRow], repairs: Repairs) -> None:
    """Give each call, and its answer, an id and a name that the provider accepts."""
    ids = CallIds(form.tool_id) if form.tool_id else None
    for call in (part for row in rows for part in row.parts if part.kind is PartKind.CALL):
        name = name_for(call.block["name"], form.tool_name)
        if name != call.block["name"]:
            call.rename(name)
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

    def __init__(self, form: ProviderForm, repairs: Repairs) -> None:
        self._form = form
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

    def finish(self, rows: Sequence[OutgoingRow], *, complete: bool) -> list[OutgoingTurn]:
        """End the last turn, whose calls may wait unless the list has to be complete."""
        self._drop_held()
        if complete and self._is_last("assistant") and (answers := self._answers()):
            self._turns.append(OutgoingTurn("user", answers))
        if self._form.alternates:
            self._turns = list(self._alternating())
        last = self._turns[-1] if self._turns else None
        if complete and (last is None or (last.role == "assistant" and not _continues(last.parts))):
            self._turns.append(OutgoingTurn("user", []))
            if rows:
                self._repairs.add(rows[-1], Rule.CLOSING)
        return self._turns

    def _alternating(self) -> Iterator[OutgoingTurn]:
        """The turns, with a user message before the assistant where one is needed."""
        last, rule = "assistant", Rule.OPENING
        for turn in self._turns:
            # A compaction stands for messages of the user too.
            opens = rule is Rule.OPENING and turn.parts and _is_compaction(turn.parts[0])
            if turn.role == "assistant" and last == "assistant" and not opens:
                self._repairs.add(turn.parts[0].row, rule)
                yield OutgoingTurn("user", [])
            yield turn
            last, rule = turn.role, Rule.APART

    def _is_last(self, role: str) -> bool:
        return bool(self._turns) and self._turns[-1].role == role

    def _add_assistant(self, row: OutgoingRow) -> None:
        thinks = [part.kind is PartKind.THINKING for part in row.parts]
        if not self._form.holds or not any(thinks):
            self._place(row, row.parts, apart=False)
            return
        last = max((at for at, thinking in enumerate(thinks) if not thinking), default=-1)
        if self._form.apart:
            self._drop_held()
        if last >= 0:
            self._place(row, row.parts[: last + 1], apart=self._form.apart)
        self._held.extend(row.parts[last + 1 :])

    def _place(self, row: OutgoingRow, body: Sequence[OutgoingPart], *, apart: bool) -> None:
        """Add parts to the assistant's turn, or begin one."""
        if self._is_last("assistant") and self._was_asked_after(row):
            self._drop_held()
            self._turns.append(OutgoingTurn("user", self._answers()))
            if not self._turns[-1].parts:
                self._repairs.add(row, Rule.APART)
        held, self._held = self._held, []
        turn = self._turns[-1].parts if self._is_last("assistant") else None
        joins = turn is not None and not apart and self._form.joins(turn, body)
        if self._form.apart and held and turn is not None and held[0].row is not turn[-1].row:
            joins = False
        if turn is not None and not joins and (apart or held) and _continues(turn):
            joins = True  # the provider continues its own message after its earlier words
        if (joins or held) and not self._form.lists:
            self._repairs.add(row, Rule.MERGED)
        if not joins:
            if turn is not None and (answers := self._answers()):
                self._turns.append(OutgoingTurn("user", answers))
            self._turns.append(OutgoingTurn("assistant", []))
            self._due.clear()
        self._turns[-1].parts.extend([*held, *body])
        self._due.update(part.answer for part in body if part.answer is not None)

    def _was_asked_after(self, row: OutgoingRow) -> bool:
        """Return True if the request for this reply ended with the last turn and a user message.

        A turn that the provider continues was sent back as it was, unless it calls the agent too.
        """
        asked_at, parts = row.message.asked_at, self._turns[-1].parts
        if asked_at is None or parts[-1].row.message.seq > asked_at:
            return False
        return any(part.kind is PartKind.CALL for part in parts) or not _continues(parts)

    def _add_user(self, row: OutgoingRow) -> None:
        if any(part.kind is not PartKind.RESULT or part in self._due for part in row.parts):
            self._drop_held()
            if not self._is_last("user"):
                self._turns.append(OutgoingTurn("user", self._answers()))
            elif self._form.alternates:
                self._repairs.add(row, Rule.MERGED)
        for part in row.parts:
            if part.kind is not PartKind.RESULT:
                self._turns[-1].parts.append(part)
            elif part not in self._due or self._turns[-1].parts[-1].kind is not PartKind.RESULT:
                self._repairs.add(row, Rule.HOISTED, part.index)

    def _answers(self) -> list[OutgoingPart]:
        """Answer every call of the last turn: with stored results, then with synthetic ones."""
        # In the order in which the tools answered, so that a later answer moves no earlier one.
        answers = sorted(self._due, key=lambda part: (part.row.number, part.index))
        for call in self._turns[-1].waiting if self._turns else ():
            self._repairs.add(call.row, Rule.UNANSWERED, call.index)
            call.answer = OutgoingPart(
                call.row, call.index, PartKind.RESULT, no_result(call.block), call=call
            )
            answers.append(call.answer)
        return answers

    def _drop_held(self) -> None:
        for part in self._held:
            self._repairs.add(part.row, Rule.TRAILING, part.index)
        self._held.clear()

"""Tools that Anthropic runs itself: a call and its result are sent together or not at all.

The result is in the same reply, or in a later one of the same turn of the model: after a pause, or
after results that the call itself asked the agent for. Only the last turn may still wait for it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from roocontext.log.forms.anthropic_blocks import attached_to_error
from roocontext.log.forms.parts import OutgoingPart, OutgoingRow, PartKind, Repairs
from roocontext.log.forms.repairs import Rule

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

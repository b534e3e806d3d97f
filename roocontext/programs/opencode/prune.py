"""Which old tool outputs OpenCode clears: a walk from the newest to the oldest.

The newest turns are left alone, then a stretch of outputs that together are worth `protect` tokens;
what lies beyond goes, if it is worth more than `minimum`. A summary or an output that is cleared
already ends the walk. Outputs of spared tools are passed by as if they were not there, and so are
those of tools that failed or have not answered.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from roocontext.log.entries import BlockRef, Kind
from roocontext.log.pairs import Reading, pairs
from roocontext.log.readings import Block, reader, results, text_of
from roocontext.policies.situation import Row

PROTECT: Final = 40_000
MINIMUM: Final = 20_000
PROTECTED_TURNS: Final = 2

PLACEHOLDER: Final = "[Old tool result content cleared]"
"""What the model sees in the place of a cleared output."""

SPARED_NEWER: Final = frozenset({"skill"})
"""The tools that the program of 2026 spares."""

Ref = TypeVar("Ref")

Estimate = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Output(Generic[Ref]):
    """What a tool that succeeded has put out, and where that is."""

    ref: Ref
    tool: str
    text: str
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Step(Generic[Ref]):
    """A message: whether a turn of the user begins with it, or it sums up; and its outputs."""

    outputs: tuple[Output[Ref], ...] = ()
    is_turn: bool = False
    is_summary: bool = False


class Pruning(NamedTuple, Generic[Ref]):
    """What was walked over, what of it could go, and where that is, newest first."""

    total: int
    pruned: int
    refs: tuple[Ref, ...]


def prunable(
    steps: Sequence[Step[Ref]],
    estimate: Estimate,
    *,
    spared: Collection[str] = (),
    protect: int = PROTECT,
    minimum: int = MINIMUM,
) -> Pruning[Ref]:
    """Walk over the messages, given oldest first. Too little to be worth it has no refs."""
    total = pruned = 0
    refs: list[Ref] = []
    for output in _reached(steps):
        if output.tool in spared:
            continue
        if output.cleared:
            break
        cost = estimate(output.text)
        total += cost
        if total > protect:
            pruned += cost
            refs.append(output.ref)
    return Pruning(total, pruned, tuple(refs) if pruned > minimum else ())


def steps_of(rows: Sequence[Row], *, without: Collection[int] = ()) -> list[Step[BlockRef]]:
    """Rows as the walk sees them; the outputs of some of them are left out.

    A message of the user that holds nothing but outputs belongs to the answer before it.
    """
    messages = (row.message for row in rows)
    readings = [reader(m.format).blocks(m.role, m.content) for m in messages]
    tools = _tools(readings)
    steps = []
    for row, reading, named in zip(rows, readings, tools, strict=True):
        found = () if row.seq in without else tuple(_outputs(row, reading[1], named))
        is_summary = row.message.kind is Kind.SUMMARY
        steps.append(Step(found, is_turn=_is_turn(row, reading), is_summary=is_summary))
    return steps


def _reached(steps: Sequence[Step[Ref]]) -> Iterator[Output[Ref]]:
    """The outputs behind the newest turns and before the last summary, newest first."""
    turns = 0
    for step in reversed(steps):
        turns += step.is_turn
        if turns >= PROTECTED_TURNS:
            if step.is_summary:
                return
            yield from reversed(step.outputs)


def _tools(readings: Sequence[Reading]) -> list[dict[int, str]]:
    """For each message, which tool each answer in it is of, by the index of its block."""
    named: list[dict[int, str]] = [{} for _ in readings]
    for pair in pairs(readings):
        message, block = pair.call
        named[pair.result[0]][pair.result[1]] = str(readings[message][1][block].get("name", ""))
    return named


def _outputs(
    row: Row, blocks: Sequence[Block], tools: Mapping[int, str]
) -> Iterator[Output[BlockRef]]:
    message = row.message
    places = reader(message.format).outputs(message.content)
    for place, (index, _) in zip(places, results(blocks), strict=True):
        block = blocks[index]
        if index in tools and not block.get("is_error"):
            cleared = place in message.cleared
            yield Output((row.seq, place), tools[index], text_of([block]), cleared=cleared)


def _is_turn(row: Row, reading: Reading) -> bool:
    role, blocks = reading
    spoken = row.message.kind in (Kind.MESSAGE, Kind.COMPANION)
    return spoken and role == "user" and len(results(blocks)) < len(blocks)

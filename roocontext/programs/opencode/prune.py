"""The old tool outputs that OpenCode clears: a walk from the newest output to the oldest.

The walk skips the newest turns and then the newest outputs up to `protect` tokens. Older outputs
are cleared if they are worth more than `minimum` tokens together. A summary, or an output that is
already cleared, ends the walk. Outputs of spared tools are ignored, and so are those of tools that
failed or have not answered.

OpenCode's overflow rule: the tokens that a call used, compared with the model's context.

OpenCode's estimate of a text: its UTF-16 length divided by four.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from roocontext.log.clearing import cleared_whole, shown_outputs
from roocontext.log.entries import BlockRef, Kind
from roocontext.log.readings import Block, RoleAndBlocks, read_message, results, text_of
from roocontext.policies.layout import tools_by_output
from roocontext.policies.situation import Row
from roocontext.tokens.builtin import always
from roocontext.tokens.javascript import units
from roocontext.tokens.usage import TextCounter

PROTECT: Final = 40_000
MINIMUM: Final = 20_000
PROTECTED_TURNS: Final = 2

PLACEHOLDER: Final = "[Old tool result content cleared]"
"""The model sees this instead of a cleared output."""

SPARED_NEWER: Final = frozenset({"skill"})
"""The tools that the program has spared since 2026."""

Ref = TypeVar("Ref")

Estimate = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class PastOutput(Generic[Ref]):
    """The output of a tool that succeeded, and its place."""

    ref: Ref
    tool: str
    text: str
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class PastMessage(Generic[Ref]):
    """A message with its outputs, and whether it begins a turn or is a summary."""

    outputs: tuple[PastOutput[Ref], ...] = ()
    is_turn: bool = False
    is_summary: bool = False


class Pruning(NamedTuple, Generic[Ref]):
    """The tokens seen, the tokens that could be cleared, and their places, newest first."""

    total: int
    pruned: int
    refs: tuple[Ref, ...]


def prunable(
    steps: Sequence[PastMessage[Ref]],
    estimate: Estimate,
    *,
    spared: Collection[str] = (),
    protect: int = PROTECT,
    minimum: int = MINIMUM,
) -> Pruning[Ref]:
    """Walk over the messages (oldest first). If too little could be cleared, `refs` is empty."""
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


def steps_of(rows: Sequence[Row], *, without: Collection[int] = ()) -> list[PastMessage[BlockRef]]:
    """Rows as the walk sees them; outputs of the rows in `without` are left out.

    A user message that holds only outputs belongs to the answer before it.
    """
    messages = (row.message for row in rows)
    readings = [read_message(m) for m in messages]
    tools = tools_by_output(rows, readings)
    steps = []
    for row, reading in zip(rows, readings, strict=True):
        outputs = () if row.seq in without else tuple(_outputs(row, reading[1], tools))
        turn = _is_turn(row, reading)
        steps.append(PastMessage(outputs, is_turn=turn, is_summary=row.summarises))
    return steps


def _reached(steps: Sequence[PastMessage[Ref]]) -> Iterator[PastOutput[Ref]]:
    """The outputs between the last summary and the newest turns, newest first."""
    turns = 0
    for step in reversed(steps):
        turns += step.is_turn
        if turns >= PROTECTED_TURNS:
            if step.is_summary:
                return
            yield from reversed(step.outputs)


def _outputs(
    row: Row, blocks: Sequence[Block], tools: Mapping[BlockRef, str]
) -> Iterator[PastOutput[BlockRef]]:
    message = row.message
    content = message.format, message.role, message.content
    gone = cleared_whole(message)
    for place, index in shown_outputs(*content, blocks):
        block, ref = blocks[index], (row.seq, place)
        if ref in tools and not block.get("is_error"):
            yield PastOutput(ref, tools[ref], text_of([block]), cleared=place in gone)


def _is_turn(row: Row, reading: RoleAndBlocks) -> bool:
    role, blocks = reading
    spoken = row.message.kind in (Kind.MESSAGE, Kind.COMPANION)
    return spoken and role == "user" and len(results(blocks)) < len(blocks)


OUTPUT_MAX: Final = 32_000
"""The most tokens reserved for an answer; also the reserve if the model's limit is unknown."""


def passes(tokens: int, *, context: int, reserved: int) -> bool:
    """True if the tokens exceed the context less the reserve; a context of 0 means unknown."""
    return context != 0 and tokens > context - reserved


def reserve(output: int, most: int = OUTPUT_MAX) -> int:
    """The tokens reserved for the answer of a model with this output limit; 0 means unknown."""
    return min(output, most) or most


def estimate_length(text: str) -> int:
    """Round up, as documented."""
    return -(-units(text) // 4)


def estimate_upstream(text: str) -> int:
    """Round half up, as the program does: a single character is 0 tokens."""
    return (units(text) + 2) // 4


counter = always(TextCounter("opencode", estimate_length))
counter_upstream = always(TextCounter("opencode-upstream", estimate_upstream))

"""The tool outputs that could be cleared, how much each would save, and how little may stay.

An output that no recorded reply has read is fresh. It is never cleared as a whole: a model that has
not read a line of it would only ask for it again. Its head and its tail stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roocontext.log.clearing import ShownOutput, by_row, measure, output_blocks, shown_text
from roocontext.log.counting import FREE, Budget, Size
from roocontext.log.entries import BlockRef, Kept
from roocontext.log.plan import SHORTENED
from roocontext.log.readings import Block
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.make_plan import clear_plan, cleared_size, saved
from roocontext.policies.situation import Ready, Row, Situation

LEAST: Final = 200
"""The fewest characters of the head, and of the tail, that stay of a fresh output."""

_STEPS: Final = (0.95, 0.85, 0.7, 0.5, 0.25, 0.1, 0.0)
"""The shares of what fits by estimate that are tried: the first that fits by measure is taken."""


@dataclass(frozen=True, slots=True)
class Output:
    """A tool output that could be cleared: its place, and about how much that saves.

    Of a fresh one, `characters` are the length of its text, and as little as allowed stays.
    """

    place: BlockRef
    tool: str | None
    saves: Size
    characters: int = 0

    @property
    def fresh(self) -> bool:
        """True if no reply has read it."""
        return self.characters > 0


def clearable(layout: Layout, placeholder: str) -> tuple[Output, ...]:
    """The outputs whose clearing saves tokens, in view order.

    Outputs of protected tools, of pinned messages and of their partners are left out.
    """
    situation = layout.situation
    pinned = whole_groups(layout.groups, situation.pins)
    outputs: list[Output] = []
    for row in situation.visible:
        if row.seq not in pinned:
            output = _least_of(row.seq in layout.fresh, placeholder)
            outputs += _outputs(situation, row, layout.tools, output)
    return tuple(outputs)


def _least_of(fresh: bool, placeholder: str) -> ShownOutput:  # noqa: FBT001 - of an output
    """As little as may stay of an output."""
    return ShownOutput(SHORTENED, LEAST, LEAST) if fresh else ShownOutput(placeholder)


def stripped(
    situation: Situation, rows: Iterable[Row], outputs: Iterable[Output], placeholder: str
) -> Size:
    """The size of these rows after these outputs are cleared as far as allowed."""
    cleared = by_row({output.place: _least_of(output.fresh, placeholder) for output in outputs})
    total = FREE
    for row in rows:
        replaced = cleared.get(row.seq)
        total = total.plus(cleared_size(situation, row, replaced) if replaced else row.size)
    return total


def shortenings(
    situation: Situation, outputs: Sequence[Output], *, size: Size, goal: Budget
) -> dict[BlockRef, tuple[int, int]]:
    """The characters of the head and tail of fresh outputs that may stay to reach a goal.

    The longest are shortened first, to the same length. If even as little as allowed is over the
    goal, as little as allowed stays.
    """
    lengths = {output.place: output.characters for output in outputs}
    share = _share(outputs, size, goal)
    for step in _STEPS:
        most = _most(lengths.values(), share * step)
        keeps = {
            place: ((most + 1) // 2, most // 2)
            for place, length in lengths.items()
            if length > most
        }
        parts = [Kept(*place, *kept) for place, kept in keeps.items()]
        left = size.minus(saved(situation, keeps, SHORTENED, parts))
        if not goal.exceeded_by(left):
            break
    return keeps


def fitted(layout: Layout, size: Size, goal: Budget, *, policy: str) -> Ready | None:
    """Shorten fresh outputs until what must stay, which has this size, is under the goal."""
    situation = layout.situation
    outputs = [output for output in clearable(layout, SHORTENED) if output.fresh]
    keeps = shortenings(situation, outputs, size=size, goal=goal) if outputs else {}
    if not keeps:
        return None
    plan = clear_plan(situation, keeps, SHORTENED, policy=policy, keeps=keeps)
    saves = situation.size.minus(plan.counts.after) if plan.counts else FREE
    return Ready(plan, "cleared") if not goal.exceeded_by(size.minus(saves)) else None


def _share(outputs: Sequence[Output], size: Size, goal: Budget) -> float:
    """The share of the characters that could be left out which may stay, by estimate."""
    share = 1.0
    for unit, excess in goal.exceeded_by(size).items():
        most = sum(getattr(output.saves, unit) for output in outputs)
        share = min(share, 1 - excess / most) if most > 0 else 0.0
    return max(share, 0.0)


def _most(lengths: Iterable[int], share: float) -> int:
    """The length to shorten outputs to so that this share of what may be left out stays."""
    ascending = sorted(lengths)
    left = share * sum(length - 2 * LEAST for length in ascending)
    for index, length in enumerate(ascending):
        each = left / (len(ascending) - index)
        if length - 2 * LEAST > each:
            return 2 * LEAST + int(each)
        left -= length - 2 * LEAST
    return ascending[-1]


def _outputs(
    situation: Situation, row: Row, tools: Mapping[BlockRef, str], shown: ShownOutput
) -> Iterator[Output]:
    message = row.message
    outputs = output_blocks(message.format, message.role, message.content)
    before = {part.block: part for part in message.shortened}
    for index, block in outputs.items():
        tool, part = tools.get((row.seq, index)), before.get(index)
        if tool in situation.protected_tools or (index in message.cleared and part is None):
            continue
        length = 0
        if shown.is_part:
            length, more = (part.head + part.tail, False) if part else measure(block)
            if length <= 2 * LEAST and not more:
                continue
            # What is no text goes last: nothing of it could stay.
            length = max(length, 2 * LEAST + 1)
        if len(outputs) == 1:
            saves = row.size.minus(cleared_size(situation, row, {index: shown}))
        else:
            saves = _alone(situation, row, index, block, shown)
        if saves.tokens > 0:
            yield Output((row.seq, index), tool, saves, length)


def _alone(situation: Situation, row: Row, index: int, block: Block, shown: ShownOutput) -> Size:
    """The saving of one of many outputs, without measuring the whole row for each of them."""
    text = shown_text(row.message, index, block, shown)
    whole, bare = (
        situation.measure("user", [version], "anthropic")
        for version in (block, {**block, "content": text})
    )
    return whole.minus(bare)

"""The tool outputs that could be cleared, and how much each would save."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roocontext.log.budget import FREE, Size
from roocontext.log.entries import BlockRef
from roocontext.log.readings import Block, reader, results
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.make_plan import blocks_by_row, cleared_size
from roocontext.policies.situation import Row, Situation


@dataclass(frozen=True, slots=True)
class Output:
    """An uncleared tool output: its place, and about how much clearing it saves."""

    place: BlockRef
    tool: str | None
    saves: Size


def clearable(layout: Layout, placeholder: str) -> tuple[Output, ...]:
    """The outputs whose clearing saves tokens, in view order.

    Outputs of protected tools, of pinned messages and of their partners are left out.
    """
    situation = layout.situation
    kept = whole_groups(layout.groups, situation.pins)
    names: dict[str, str] = {}
    found: list[Output] = []
    for row in situation.visible:
        names |= _called(row)
        if row.seq not in kept:
            found += _outputs(situation, row, names, placeholder)
    return tuple(found)


def stripped(
    situation: Situation, rows: Iterable[Row], outputs: Iterable[Output], placeholder: str
) -> Size:
    """The size of these rows after these outputs are cleared."""
    blocks = blocks_by_row(output.place for output in outputs)
    total = FREE
    for row in rows:
        cleared = blocks.get(row.seq)
        total = total.plus(
            cleared_size(situation, row, cleared, placeholder) if cleared else row.size
        )
    return total


def _outputs(
    situation: Situation, row: Row, names: dict[str, str], placeholder: str
) -> Iterator[Output]:
    message = row.message
    read = reader(message.format)
    _, blocks = read.blocks(message.role, message.content)
    answered = list(zip(read.outputs(message.content), results(blocks), strict=False))
    for index, (at, tool_id) in answered:
        tool = names.get(tool_id)
        if index in message.cleared or tool in situation.protected_tools:
            continue
        if len(answered) == 1:
            saves = row.size.minus(cleared_size(situation, row, (index,), placeholder))
        else:
            saves = _alone(situation, blocks[at], placeholder)
        if saves.tokens > 0:
            yield Output((row.seq, index), tool, saves)


def _alone(situation: Situation, block: Block, placeholder: str) -> Size:
    """What clearing one of many outputs saves, without measuring the whole row for each of them."""
    whole, bare = (
        situation.measure("user", [one], "anthropic")
        for one in (block, {**block, "content": placeholder})
    )
    return whole.minus(bare)


def _called(row: Row) -> dict[str, str]:
    """The tools that a message calls, by the id of the call."""
    _, blocks = reader(row.message.format).blocks(row.message.role, row.message.content)
    return {
        block["id"]: block["name"]
        for block in blocks
        if block.get("type") == "tool_use"
        and isinstance(block.get("id"), str)
        and isinstance(block.get("name"), str)
    }

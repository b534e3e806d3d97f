"""The text that a view shows instead of a cleared tool output.

A clearing stores a fixed phrase and, for an output that is cleared in part, how many characters of
its head and its tail stay. These are numbers and never content: the text is made from the row
whenever it is read. So a redaction of the row empties the text too.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from roocontext.log.entries import BlockRef, Control, Kept, Message, Shortened
from roocontext.log.readings import Block, Holds, pieces, reader, results, text_of, walk

_PROBE: Final = "\0"
"""A text that no tool has put out."""


class ShownOutput(NamedTuple):
    """The phrase that a cleared block shows, alone or between a head and a tail of the output."""

    placeholder: str
    head: int | None = None
    tail: int | None = None

    @property
    def is_part(self) -> bool:
        """True if the block is cleared in part."""
        return self.head is not None and self.tail is not None

    @property
    def leaves(self) -> int:
        """The number of characters that stay; -1 if the block is cleared as a whole."""
        return -1 if self.head is None or self.tail is None else self.head + self.tail


def shown_by(cleared: Mapping[BlockRef, Control]) -> dict[BlockRef, ShownOutput]:
    """The texts for cleared blocks, given the clearing of each."""
    clearings = {control.seq: control for control in cleared.values()}
    shown = {
        seq: shown_in(control.placeholder, control.clears, control.keeps)
        for seq, control in clearings.items()
    }
    return {block: shown[control.seq][block] for block, control in cleared.items()}


def shown_in(
    placeholder: str, blocks: Iterable[BlockRef], keeps: Iterable[Kept] = ()
) -> dict[BlockRef, ShownOutput]:
    """The texts for these blocks, given the parts of them that stay."""
    parts = {kept[:2]: kept[2:] for kept in keeps}
    return {block: ShownOutput(placeholder, *parts.get(block, ())) for block in blocks}


def by_row(shown: Mapping[BlockRef, ShownOutput]) -> dict[int, dict[int, ShownOutput]]:
    """The texts by row, and in a row by block."""
    rows: dict[int, dict[int, ShownOutput]] = {}
    for (seq, block), output in shown.items():
        rows.setdefault(seq, {})[block] = output
    return rows


def cleared_whole(message: Message) -> set[int]:
    """The blocks of a message of which nothing stays."""
    return set(message.cleared) - {part.block for part in message.shortened}


def with_cleared(message: Message, blocks: Mapping[int, ShownOutput]) -> Message:
    """The message with these tool outputs cleared. Some may have been cleared in part before."""
    before = {part.block: part for part in message.shortened}
    content, parts = clear(
        *(message.format, message.role, message.content), message.seq, blocks, before=before
    )
    shortened = {block: part for block, part in before.items() if block not in blocks} | parts
    return replace(
        message,
        content=content,
        cleared=tuple(sorted({*message.cleared, *blocks})),
        shortened=tuple(shortened[block] for block in sorted(shortened)),
    )


def clear(
    format_: str,
    role: str,
    content: Any,
    seq: int,
    blocks: Mapping[int, ShownOutput],
    *,
    before: Mapping[int, Shortened] = MappingProxyType({}),
) -> tuple[Any, dict[int, Shortened]]:
    """The content of a row with these tool outputs cleared, and the parts of them that stay.

    `before` are the outputs that the content already shows in part.
    """
    parts: dict[int, Shortened] = {}
    texts: dict[str, list[int]] = {}
    is_whole = not any(shown.is_part for shown in blocks.values())
    outputs = {} if is_whole else output_blocks(format_, role, content)
    for block, shown in sorted(blocks.items()):
        text = shown.placeholder
        if shown.is_part and block in outputs:
            parts[block] = _part(outputs[block], block, shown, before.get(block))
            text = _shortened(outputs[block], seq, parts[block], text)
        texts.setdefault(text, []).append(block)
    # All of one text at once: a row may have hundreds of outputs, and each call looks for them all.
    for text, cleared in texts.items():
        content = reader(format_).clear(content, cleared, text)
    return content, parts


def shown_text(message: Message, block: int, output: Block, shown: ShownOutput) -> str:
    """The text that replaces one of a message's tool outputs when it is cleared."""
    if not shown.is_part:
        return shown.placeholder
    before = next((part for part in message.shortened if part.block == block), None)
    return _shortened(output, message.seq, _part(output, block, shown, before), shown.placeholder)


def output_blocks(format_: str, role: str, content: Any) -> dict[int, Block]:
    """The tool outputs of a message, as its reader shows them, by the index of their block."""
    _, blocks = reader(format_).blocks(role, content)
    return {place: blocks[at] for place, at in shown_outputs(format_, role, content, blocks)}


def shown_outputs(
    format_: str, role: str, content: Any, blocks: Sequence[Block]
) -> list[tuple[int, int]]:
    """The tool outputs of a message, and the index of the result that shows each of them.

    `blocks` are the reading of the message. Not every output is shown as a result, and not every
    result can be cleared.
    """
    read = reader(format_)
    places, shown = read.outputs(content), [at for at, _ in results(blocks)]
    if len(places) == len(shown):
        return [*zip(places, shown, strict=True)]
    found = []
    for place in places:
        # Only the reader knows which result shows this output: the one that clearing changes.
        _, cleared = read.blocks(role, read.clear(content, [place], _PROBE))
        changed = (at for at in shown if cleared[at : at + 1] != blocks[at : at + 1])
        found += [(place, at) for at in islice(changed, 1)]
    return found


def measure(output: Block) -> tuple[int, bool]:
    """The number of characters of text in a tool output, and True if it holds anything else."""
    text = (Holds.OUTPUT, Holds.TEXT)
    is_more = any(piece.kind not in text for piece in walk(pieces([output])))
    return len(text_of([output])), is_more


def _shortened(output: Block, seq: int, part: Shortened, placeholder: str) -> str:
    """The head and the tail of an output; between them, how much is missing and where it is."""
    text = text_of([output])
    missing = part.size - part.head - part.tail
    if not missing and not part.more:
        return text
    more = " and content that is not text" if part.more else ""
    note = f"{placeholder} [{missing:,} of {part.size:,} characters{more}: entry {seq} has all]"
    parts = (text[: part.head], note, text[len(text) - part.tail :])
    return "\n".join(filter(None, parts))


def _part(output: Block, block: int, shown: ShownOutput, before: Shortened | None) -> Shortened:
    """The part of an output that stays. After a redaction, less of it may be left than that."""
    # If it was shortened before, only its beginning and its end are known.
    size, more = before[3:] if before else measure(output)
    head = min(shown.head or 0, size)
    return Shortened(block, head, min(shown.tail or 0, size - head), size, more)

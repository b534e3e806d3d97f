"""The rows of a view with each result right behind its call, as providers want them.

Claude Code leaves out a reply of which a call has no result, with all of its words, and results
without a call. So what the user writes while a tool runs comes behind the result, a call that
nothing answers gets a result that says so, and a result of no call becomes a text that quotes it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from roocontext.formats.anthropic_rows import AnthropicRows
from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.parts import no_result, orphan, trimmed
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import text


class PairedRow(NamedTuple):
    """A message with Anthropic's role and blocks."""

    message: Message
    role: str
    blocks: list[Block]

    @property
    def calls(self) -> list[str]:
        """The ids of its calls."""
        return _ids(self.blocks, "tool_use", "id") if self.role == "assistant" else []

    @property
    def results(self) -> list[str]:
        """The ids of the calls that it answers."""
        return _ids(self.blocks, "tool_result", "tool_use_id") if self.role == "user" else []


def paired_rows(messages: Iterable[Message]) -> Iterator[PairedRow]:
    """The rows in the order in which they can be sent, without those that have nothing to send."""
    read = AnthropicRows()
    waiting: list[str] = []
    held: list[PairedRow] = []
    last: PairedRow | None = None
    for message in messages:
        role, content = read.read(message)
        blocks = [text(content)] if isinstance(content, str) else map(_sendable, content)
        row = PairedRow(message, role, list(blocks))
        if not row.blocks:
            continue
        if role == "assistant":
            if last is not None and last.role != role:
                yield from _closed(last, waiting, held)
                waiting, held = [], []
            waiting += row.calls
            yield row
        else:
            row = _answering(row, waiting)
            if row.results:
                yield row
            else:
                held.append(row)
            if not waiting:
                yield from held
                held = []
        last = row
    if last is not None:
        yield from _closed(last, waiting, held)


def _sendable(block: Block) -> Block:
    """The block without the fields that other agents add and the provider refuses."""
    is_bound = block.get("type") in THINKING  # sent as it is or not at all
    return block if is_bound else trimmed(block)


def _closed(last: PairedRow, waiting: list[str], held: list[PairedRow]) -> Iterator[PairedRow]:
    """Results for the calls that nothing has answered, and what the user has written meanwhile."""
    if waiting:
        yield PairedRow(last.message, "user", [no_result({"id": tool_id}) for tool_id in waiting])
    yield from held


def _answering(row: PairedRow, waiting: list[str]) -> PairedRow:
    """The row with the results of other calls as texts; the calls that it answers wait no more."""
    blocks: list[Block] = []
    for block in row.blocks:
        tool_id = block.get("tool_use_id") if block.get("type") == "tool_result" else None
        if not isinstance(tool_id, str):
            blocks.append(block)
        elif tool_id in waiting:
            waiting.remove(tool_id)
            blocks.append(block)
        else:
            blocks += orphan(block)
    return row._replace(blocks=blocks)


def _ids(blocks: Iterable[Block], kind: str, key: str) -> list[str]:
    found = (block.get(key) for block in blocks if block.get("type") == kind)
    return [one for one in found if isinstance(one, str)]

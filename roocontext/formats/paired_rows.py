"""The rows of a view with each result right behind its call, as providers want them.

Claude Code follows its rows one by one, and takes what hangs on a call out of the chain. So what
the user says while a tool runs comes behind the result, and a result that answers no call of the
last replies becomes a text that quotes it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from roocontext.formats.anthropic_rows import AnthropicRows
from roocontext.log.entries import Message
from roocontext.log.forms.frames import orphan
from roocontext.log.readings import Block


class Row(NamedTuple):
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


def paired_rows(messages: Iterable[Message]) -> Iterator[Row]:
    """The rows in the order in which they can be sent, without those that have nothing to send."""
    read = AnthropicRows()
    waiting: set[str] = set()
    held: list[Row] = []
    replies = False
    for message in messages:
        role, content = read.read(message)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        row = Row(message, role, blocks)
        if role == "assistant":
            yield from held
            held.clear()
            waiting = waiting.union(row.calls) if replies else set(row.calls)
        else:
            row = _answering(row, waiting)
            waiting = waiting.difference(row.results)
        replies = role == "assistant"
        if not row.blocks:
            continue
        if replies or row.results:
            yield row
        else:
            held.append(row)
        if not waiting:
            yield from held
            held.clear()
    yield from held


def _answering(row: Row, waiting: set[str]) -> Row:
    """The row with the results of other calls as texts."""
    blocks: list[Block] = []
    left = set(waiting)
    for block in row.blocks:
        match block:
            case {"type": "tool_result", "tool_use_id": str(tool_id)} if tool_id not in left:
                blocks += orphan(block)
            case {"type": "tool_result", "tool_use_id": str(tool_id)}:
                left.remove(tool_id)
                blocks.append(block)
            case _:
                blocks.append(block)
    return row._replace(blocks=blocks)


def _ids(blocks: Iterable[Block], kind: str, key: str) -> list[str]:
    found = (block.get(key) for block in blocks if block.get("type") == kind)
    return [one for one in found if isinstance(one, str)]

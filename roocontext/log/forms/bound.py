"""Thinking that is bound to what was sent before it.

From Claude Fable 5.1 on, Anthropic refuses a thinking block behind another prefix than the one it
was made for: other messages, another system prompt or other tools.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from roocontext.log.entries import BlockRef, Control, Message, Range
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.readings.blocks import dicts
from roocontext.log.spans import clearings_of, spans_of, visible_ranges

_CLAUDE: Final = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_FIRST: Final = (5, 1)


def binds_thinking(model: str | None) -> bool:
    """Whether a model refuses its thinking behind another prefix."""
    found = _CLAUDE.search(model.lower()) if model else None
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _FIRST


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

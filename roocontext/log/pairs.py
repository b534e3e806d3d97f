"""Turns, and which tool call a tool result answers.

Here alone it is decided what belongs together: a result answers the latest earlier call of its id
that is not answered yet, because agents use ids again. Of calls in one message with the same id the
first is answered first. Messages are given as their reader shows them: Anthropic's role and blocks.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from roocontext.log.readings import Block, calls, results

Reading: TypeAlias = tuple[str, list[Block]]
"""A message's role, user or assistant, and its blocks."""

Place: TypeAlias = tuple[int, int]
"""The index of a message, and of a block in it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A tool call and the result that answers it."""

    call: Place
    result: Place
    id: str


def pairs(messages: Sequence[Reading]) -> list[Pair]:
    """Find the answered calls, in the order of their results."""
    found: list[Pair] = []
    waiting: defaultdict[str, list[Place]] = defaultdict(list)
    for index, (role, blocks) in enumerate(messages):
        if role == "assistant":
            for block, tool_id in calls(blocks):
                waiting[tool_id].append((index, block))
        elif role == "user":
            for block, tool_id in results(blocks):
                if waiting[tool_id]:
                    found.append(Pair(_take(waiting[tool_id]), (index, block), tool_id))
    return found


def partners(messages: Sequence[Reading]) -> dict[int, set[int]]:
    """Map each message that has tool partners to all others that must stay together with it.

    Two results of one call's message are partners too: hiding one of them would split the other.
    """
    groups: dict[int, set[int]] = {}
    for pair in pairs(messages):
        call, result = pair.call[0], pair.result[0]
        joined = groups.get(call, {call}) | groups.get(result, {result})
        groups.update(dict.fromkeys(joined, joined))
    return {index: group - {index} for index, group in groups.items()}


def split(messages: Sequence[Reading], hidden: Container[int]) -> list[Pair]:
    """Find the pairs of which one side would be hidden and the other would not."""
    return [
        pair for pair in pairs(messages) if (pair.call[0] in hidden) != (pair.result[0] in hidden)
    ]


def loose_ends(messages: Sequence[Reading]) -> bool:
    """Tell whether a call or a result among these has its partner elsewhere, or nowhere."""
    ends = sum(
        len(calls(blocks)) if role == "assistant" else len(results(blocks))
        for role, blocks in messages
    )
    return ends != 2 * len(pairs(messages))


def turns(messages: Sequence[Reading]) -> list[range]:
    """Cut into whole turns; what stands before the first message of a user belongs to none.

    A turn starts at a user message that holds anything beside tool results.
    """
    starts = [
        index
        for index, (role, blocks) in enumerate(messages)
        if role == "user" and len(results(blocks)) < len(blocks)
    ]
    return [range(start, end) for start, end in pairwise([*starts, len(messages)])]


def _take(places: list[Place]) -> Place:
    """Take the first of those in the last message."""
    return places.pop(bisect_left(places, (places[-1][0], 0)))

"""The pairs of calls and results that hiding rows would separate: no plan may do that."""

from collections.abc import Container, Sequence

from roocontext.log.pairs import Links, Pair, pairs
from roocontext.log.readings import RoleAndBlocks


def split(
    messages: Sequence[RoleAndBlocks], hidden: Container[int], links: Links | None = None
) -> list[Pair]:
    """Find the pairs of which one side is hidden and the other is not."""
    return [
        pair
        for pair in pairs(messages, links or {})
        if (pair.call[0] in hidden) != (pair.result[0] in hidden)
    ]

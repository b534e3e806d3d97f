"""Which row of a Claude Code transcript is above which other one, in few steps.

A chain may be as long as the file, so a walk from row to row for each question would take too long.
Each row has a jump to one far above it, as in a skew-binary list: the way up takes as many steps as
the logarithm of its length.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple


class _Place(NamedTuple):
    depth: int
    above: str
    jump: str


class Ancestors:
    """The way up from rows. `above` gives the row above another one, or "" at the top."""

    def __init__(self, above: Callable[[str], str]) -> None:
        self._above = above
        self._places: dict[str, _Place] = {}

    def depth(self, row: str) -> int:
        """How many rows are above a row."""
        return self._place(row).depth

    def at_depth(self, depth: int, row: str) -> str | None:
        """The row at a depth on the way up from a row, or the row itself."""
        while (place := self._place(row)).depth > depth:
            row = place.jump if self._places[place.jump].depth >= depth else place.above
        return row if place.depth == depth else None

    def _place(self, row: str) -> _Place:
        asked = row
        way: list[str] = []
        seen: set[str] = set()
        while row not in self._places:
            if row in seen or not (above := self._above(row)):
                self._places[row] = _Place(0, row, row)  # a cycle is entered at its top
                break
            way.append(row)
            seen.add(row)
            row = above
        for one in reversed(way):
            if one not in self._places:
                up = self._places[row]
                far = self._places[up.jump]
                is_even = up.depth - far.depth == far.depth - self._places[far.jump].depth
                self._places[one] = _Place(up.depth + 1, row, far.jump if is_even else row)
            row = one
        return self._places[asked]


class Tops:
    """Some rows, and whether one of them is above another row."""

    def __init__(self, ancestors: Ancestors, first: str) -> None:
        self._ancestors = ancestors
        self._at_depth: dict[int, set[str]] = defaultdict(set)
        self.add(first)

    def add(self, row: str) -> None:
        """One more row. It is not needed if another one is above it."""
        if not self.has_above(row):
            self._at_depth[self._ancestors.depth(row)].add(row)

    def has_above(self, row: str) -> bool:
        """Whether one of them is above a row, or is the row."""
        at_depth = self._ancestors.at_depth
        return any(at_depth(depth, row) in rows for depth, rows in self._at_depth.items())

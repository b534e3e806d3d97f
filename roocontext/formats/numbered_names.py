"""Numbers by name in little memory: an import may meet millions of names."""

from array import array
from collections.abc import Hashable
from typing import Protocol

_MARK = (1 << 64) - 1
_FIRST_SLOTS = 256


class Numbers(Protocol):
    """What has numbers by name, such as a dictionary."""

    def get(self, name: str, /) -> int | None:
        """The number of a name; None if it has none."""


class NumberedNames:
    """A number below 2**32 for each name, in 16 to 32 bytes where a dictionary takes 200.

    The names are not kept, only 64 bits of their hashes. Of a million names, two have the same
    ones in one case of 37 million.
    """

    def __init__(self) -> None:
        self._marks, self._numbers = _slots(_FIRST_SLOTS)
        self._count = 0

    def get(self, name: Hashable, /) -> int | None:
        """The number of a name; None if it has none."""
        if not self._count:
            return None
        mark = hash(name) & _MARK or 1
        at = self._place(mark)
        return self._numbers[at] if self._marks[at] else None

    def __contains__(self, name: Hashable) -> bool:
        return self.get(name) is not None

    def __setitem__(self, name: Hashable, number: int) -> None:
        mark = hash(name) & _MARK or 1
        at = self._place(mark)
        self._numbers[at] = number
        if not self._marks[at]:
            self._marks[at] = mark
            self._count += 1
            if self._count * 4 > len(self._marks) * 3:
                self._grow()

    def _place(self, mark: int) -> int:
        """The slot of a mark, or the empty one where it belongs: the first behind its own."""
        marks = self._marks
        last = len(marks) - 1
        at = mark & last
        while (there := marks[at]) and there != mark:
            at = (at + 1) & last
        return at

    def _grow(self) -> None:
        marks, numbers = self._marks, self._numbers
        self._marks, self._numbers = _slots(2 * len(marks))
        for mark, number in zip(marks, numbers, strict=True):
            if mark:
                at = self._place(mark)
                self._marks[at], self._numbers[at] = mark, number


def _slots(count: int) -> tuple["array[int]", "array[int]"]:
    """Empty slots; their number is a power of two. A mark is never 0."""
    return array("Q", bytes(8 * count)), array("I", bytes(4 * count))

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
        self._empty(_FIRST_SLOTS)

    def get(self, name: Hashable, /) -> int | None:
        """The number of a name; None if it has none."""
        marks, last = self._marks, self._last
        mark = at = hash(name) & _MARK or 1
        # The slot of a mark is the first one behind its own place that is empty or its own. This
        # loop is written twice, because a call would take as long as the loop.
        while there := marks[at & last]:
            if there == mark:
                return self._numbers[at & last]
            at += 1
        return None

    def __contains__(self, name: Hashable) -> bool:
        return self.get(name) is not None

    def __setitem__(self, name: Hashable, number: int) -> None:
        self._put(hash(name) & _MARK or 1, number)
        if self._count * 4 > self._last * 3:
            marks, numbers = self._marks, self._numbers
            self._empty(2 * len(marks))
            for mark, kept in zip(marks, numbers, strict=True):
                if mark:
                    self._put(mark, kept)

    def _put(self, mark: int, number: int) -> None:
        marks, last = self._marks, self._last
        at = mark
        while there := marks[at & last]:
            if there == mark:
                break
            at += 1
        else:
            marks[at & last] = mark
            self._count += 1
        self._numbers[at & last] = number

    def _empty(self, slots: int) -> None:
        """Begin with empty slots; their number is a power of two, and no mark is 0."""
        self._marks, self._numbers = array("Q", [0]) * slots, array("I", [0]) * slots
        self._last, self._count = slots - 1, 0

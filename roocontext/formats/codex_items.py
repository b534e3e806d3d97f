"""The history of a Codex session as it is now. It may be long, so each item is a few numbers."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

_PACKED = Struct("<QQIIi???H")
_WHOLE_LINE = -1


class Item(NamedTuple):
    """An item of the history: its number, whose words it holds, and where it is.

    `place` is its number in a list that replaced the history; None if the line itself is the item.
    A rollback counts the items that are turns. A compaction without a list keeps those that are
    `is_users`.
    """

    start: int
    end: int
    line: int
    number: int
    place: int | None
    is_turn: bool
    is_users: bool
    is_context: bool
    path: Path


class Items:
    """The items that the program would send now."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._packed = bytearray()
        self._paths: list[Path] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """The next item."""
        if item.path not in self._paths:
            self._paths.append(item.path)
        *numbers, place, is_turn, is_users, is_context, path = item
        place = _WHOLE_LINE if place is None else place
        flags = (is_turn, is_users, is_context)
        self._packed += _PACKED.pack(*numbers, place, *flags, self._paths.index(path))

    def cut(self, at: int) -> None:
        """Drop the items from this one on."""
        del self._packed[at * _PACKED.size :]

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    def __getitem__(self, at: int) -> Item:
        return self._unpacked(_PACKED.unpack_from(self._packed, at % len(self) * _PACKED.size))

    def __iter__(self) -> Iterator[Item]:
        return map(self._unpacked, _PACKED.iter_unpack(self._packed))

    def _unpacked(self, packed: tuple[int, ...]) -> Item:
        start, end, line, number, place, is_turn, is_users, is_context, path = packed
        return Item(
            start,
            end,
            line,
            number,
            None if place == _WHOLE_LINE else place,
            bool(is_turn),
            bool(is_users),
            bool(is_context),
            self._paths[path],
        )

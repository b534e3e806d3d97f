"""Which of a session's messages or entries are shown, and in which order."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar


class _Selectable(Protocol):
    """What a row is selected by."""

    @property
    def seq(self) -> int: ...

    @property
    def speaker(self) -> str | None: ...

    @property
    def kind(self) -> str: ...


RowT = TypeVar("RowT", bound=_Selectable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The `newest` rows, or all, of those after entry `after` that have one of these names.

    A role is matched with the speaker, so that `tool` selects the outputs of tools. No role and no
    kind select all.
    """

    newest: int | None = None
    after: int = 0
    roles: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    reverse: bool = False

    @property
    def is_all(self) -> bool:
        """Whether every row after the entry is wanted."""
        return not self.roles and not self.kinds

    def of(self, rows: Iterable[RowT]) -> Iterator[RowT]:
        """The selected rows. They are read one by one unless the order or number needs them all."""
        found: Iterable[RowT] = filter(self.has, rows)
        if self.newest is not None:
            found = deque(found, maxlen=self.newest)
        return reversed([*found]) if self.reverse else iter(found)

    def has(self, row: _Selectable) -> bool:
        """Whether a row is selected, if it is new enough."""
        return (
            row.seq > self.after
            and (not self.roles or row.speaker in self.roles)
            and (not self.kinds or row.kind in self.kinds)
        )

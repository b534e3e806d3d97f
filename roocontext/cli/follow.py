"""Following a session: rows are shown as they are written, until an interrupt or a closed pipe."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from roocontext.reports.history import EntryRow, MessageRow

RowT = TypeVar("RowT", bound="EntryRow | MessageRow")

PAUSE: Final = 0.5
"""Seconds between two looks at the session."""


def followed(last: int, newer: Callable[[int], Iterable[RowT]]) -> Iterator[RowT]:
    """The rows after entry `last`, and then those that are written, as `newer(seq)` reads them."""
    while True:
        for row in newer(last):
            last = max(last, row.seq)
            yield row
        sys.stdout.flush()  # a pipe would keep rows back until it has many
        time.sleep(PAUSE)

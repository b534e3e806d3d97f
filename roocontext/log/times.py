"""Whether the times of a log ever went back.

A clock may be set back, and an agent's own times may be in any order; the log stores them
unchanged. If none ever went back, a moment is found by bisection instead of a scan. So each session
keeps count, updated with each entry.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from roocontext.log.chain import Sealed
from roocontext.log.entries import Kind

_MESSAGE = Kind.MESSAGE.value

Moment: TypeAlias = tuple[str, int | None, int]
"""Of an entry: its kind, the agent's own time, and when it was recorded."""


class Times(NamedTuple):
    """The latest time of each kind, and how many entries were earlier than one before them.

    `recorded` is about all entries. `own` is about the messages that the agent appended: their own
    time is `ts`, else when they were recorded. Rows that a plan inserted do not count, because
    their time is often later than that of the next message.
    """

    latest_recorded: int = 0
    recorded_back: int = 0
    latest_own: int = 0
    own_back: int = 0

    def after(self, entries: Iterable[Moment]) -> "Times":
        """The times after these entries."""
        latest_recorded, recorded_back, latest_own, own_back = self
        for kind, ts, recorded in entries:
            # Two entries of the same millisecond are in order.
            if recorded < latest_recorded:
                recorded_back += 1
            else:
                latest_recorded = recorded
            if kind == _MESSAGE:
                own = recorded if ts is None else ts
                if own < latest_own:
                    own_back += 1
                else:
                    latest_own = own
        return Times(latest_recorded, recorded_back, latest_own, own_back)


def moment(entry: Sealed) -> Moment:
    """The kind and times of an entry."""
    return entry.kind, entry.ts, entry.recorded_at

"""Whether the times of a log ever went back.

A clock may be set back, and an agent's own times may be in any order; the log stores them
unchanged. If none ever went back, a moment is found by bisection instead of a scan. So each session
keeps count, updated with each entry.
"""

from typing import NamedTuple

from roocontext.log.chain import Sealed
from roocontext.log.entries import Kind


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

    def after(self, entry: Sealed) -> "Times":
        """The times after one more entry."""
        recorded = entry.recorded_at
        own = own_time(entry)
        is_own_back = own is not None and own < self.latest_own
        return Times(
            max(self.latest_recorded, recorded),
            self.recorded_back + (recorded < self.latest_recorded),
            self.latest_own if own is None else max(self.latest_own, own),
            self.own_back + is_own_back,
        )


def own_time(entry: Sealed) -> int | None:
    """The own time of a message that the agent appended; None for any other entry."""
    if entry.kind != Kind.MESSAGE:
        return None
    return entry.recorded_at if entry.ts is None else entry.ts

"""The times of a log that are kept with its session.

An entry happened at the agent's own time, its `ts`, or else when it was recorded. A clock may be
set back, and an agent's own times may be in any order; the log stores them unchanged.
"""

from typing import Final, NamedTuple

from roocontext.log.entries import Kind

ORIGIN: Final = "origin"
"""The kind of the note with which the own part of a fork begins."""

MINUTE_MS: Final = 60_000
_MESSAGE, _NOTE = Kind.MESSAGE.value, Kind.NOTE.value


def listed(happened_at: int, updated_at: int) -> int:
    """The time that lists are ordered by, so that a time in the future does not stay on top."""
    return min(happened_at, updated_at)


def minute_of(time: int) -> int:
    """The minute that sessions are indexed by, so that most appends leave that index alone."""
    return time // MINUTE_MS


class Times(NamedTuple):
    """The times of a log, updated with each entry.

    `latest_recorded` is the latest recording of all entries. `recorded_back` counts the entries
    that were recorded earlier than one before them: while it is 0, a time of recording is found by
    bisection. `latest_happened` is the latest time of the messages and control rows. `happened_at`
    is the session's own time: that of its latest appended message, or at first, in a fork, of the
    note of origin. A time that does not exist yet is None, because any number is an ordinary time.
    """

    latest_recorded: int | None = None
    recorded_back: int = 0
    latest_happened: int | None = None
    happened_at: int | None = None

    def after(self, kind: str, note: str | None, ts: int | None, recorded_at: int) -> "Times":
        """The times after one more entry."""
        recorded, back, latest, own = self
        # Two entries of the same millisecond are in order.
        if recorded is None or recorded_at >= recorded:
            recorded = recorded_at
        else:
            back += 1
        time = recorded_at if ts is None else ts
        if kind != _NOTE:
            latest = time if latest is None or time > latest else latest
            if kind == _MESSAGE:
                own = time if own is None or time > own else own
        elif note == ORIGIN:
            own = time
        return Times(recorded, back, latest, own)

"""Times and ages as people read them, in the time zone of the process.

The log counts milliseconds since the epoch, and documents have times in UTC.
"""

from datetime import datetime
from typing import Protocol

from roocontext.log.moments import in_calendar

_DAY = 86_400
_AGES = (
    (60, 1, "s"),
    (3_600, 60, "min"),
    (_DAY, 3_600, "h"),
    (14 * _DAY, _DAY, "d"),
    (63 * _DAY, 7 * _DAY, "wk"),
    (365 * _DAY, 2_629_800, "mo"),
)
"""The ages below so many seconds are shown in a unit: its seconds, and its name."""
_YEAR = 31_557_600


class Timed(Protocol):
    """A row of a document that has both times."""

    @property
    def happened_at(self) -> int:
        """When it happened."""

    @property
    def recorded_at(self) -> int:
        """When it was recorded."""


def local_time(milliseconds: int) -> str:
    """A time of the log to the second, without its zone."""
    when = _local(milliseconds)
    return f"{milliseconds} ms" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"


def zone(milliseconds: int) -> str:
    """The name of the zone at a time of the log. It may depend on the season."""
    when = _local(milliseconds)
    return (when and when.tzname()) or "UTC"


def zoned_time(milliseconds: int) -> str:
    """A time of the log to the second, with its zone."""
    return f"{local_time(milliseconds)} {zone(milliseconds)}"


def chosen_time(row: "Timed", *, recorded: bool) -> int:
    """The time of a row to show: when it happened, or when it was recorded."""
    return row.recorded_at if recorded else row.happened_at


def age(milliseconds: int, now: int) -> str:
    """The age of a time of the log: `3 h`."""
    seconds = max(0, now - milliseconds) // 1_000
    for below, unit, name in _AGES:
        if seconds < below:
            return f"{seconds // unit} {name}"
    return f"{max(1, seconds // _YEAR)} y"


def _local(milliseconds: int) -> datetime | None:
    """The local time; None if no calendar has it: the agent's `ts` may be any integer."""
    when = in_calendar(milliseconds)
    try:
        return when and when.astimezone()
    except (OverflowError, ValueError, OSError):
        return None

"""Points in time, which the log stores as milliseconds since the epoch, and points in a log."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple, TypeAlias

from roocontext.errors import HistoryCorrupt

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(NamedTuple):
    """A point in time, by when entries happened or, if `recorded`, by when they were recorded."""

    time: int
    recorded: bool = False


Point: TypeAlias = int | Moment | None
"""A point in a log: an entry, or a moment; None is now."""


def happened(ts: int | None, recorded_at: int) -> int:
    """When an entry happened: the agent's own time, or else when it was recorded."""
    return recorded_at if ts is None else ts


def check_time(seq: int, *times: object) -> None:
    """Raise HistoryCorrupt if a stored time of an entry is no number: they are compared."""
    if not all(isinstance(time, int | float) for time in times):
        raise HistoryCorrupt(f"The time of entry {seq} is not a number.", seq=seq)


def milliseconds(when: datetime) -> int:
    """A datetime, which must have a zone, as milliseconds since the epoch."""
    since = when - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def iso_utc(milliseconds: int) -> str:
    """A time of the log in UTC, with the offset; a number if no calendar has it."""
    when = in_calendar(milliseconds)
    return when.isoformat(timespec="milliseconds") if when else f"{milliseconds} ms"


def from_iso(text: str) -> int:
    """The time in a text that `iso_utc` wrote."""
    number, _, unit = text.partition(" ")
    return int(number) if unit == "ms" else milliseconds(datetime.fromisoformat(text))


def utc(milliseconds: int) -> str:
    """A time of the log as people read it; a number if no calendar has it."""
    if not (when := in_calendar(milliseconds)):
        return f"{milliseconds} ms"
    return f"{when:%Y-%m-%d %H:%M:%S}{f'.{part:03}' if (part := milliseconds % 1_000) else ''} UTC"


def utc_minute(milliseconds: int) -> str:
    """The same to the minute."""
    when = in_calendar(milliseconds)
    return f"{when:%Y-%m-%d %H:%M} UTC" if when else f"{milliseconds} ms"


def day(milliseconds: int, zone: tzinfo | None) -> str:
    """The day of a time in a zone, None for the process's; a number if no calendar has it."""
    try:
        return f"{(EPOCH + timedelta(milliseconds=milliseconds)).astimezone(zone):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def in_calendar(milliseconds: int) -> datetime | None:
    """A time of the log as a datetime; None if no calendar has it."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None

"""Points in time as the log stores them: milliseconds since the epoch."""

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(when: datetime) -> int:
    """A datetime, which has a zone, as milliseconds since the epoch."""
    since = when - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def utc(milliseconds: int) -> str:
    """A time of the log as people read it; what no calendar has stays a number."""
    try:
        when = EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{when:%Y-%m-%d %H:%M:%S}{f'.{part:03}' if (part := milliseconds % 1_000) else ''} UTC"

"""Times as foreign tools write them."""

from datetime import datetime
from typing import Any


def iso_ms(value: Any) -> int | None:
    """An ISO-8601 time in milliseconds since the epoch; None if it is none."""
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def whole_ms(value: Any) -> int | None:
    """Milliseconds since the epoch; None if it is no such number."""
    return value if type(value) is int and abs(value) < 1 << 62 else None

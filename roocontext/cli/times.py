"""What people write for a point of a session: an entry's number, a message's id, or a time."""

import re
from datetime import UTC, datetime, timedelta

from roocontext.errors import InvalidOption

_SEQ = re.compile(r"[+-]?[0-9]+")
_AGO = re.compile(r"([0-9]+) ?(s|m|h|d|w)[a-z]* ago")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LARGEST = (1 << 63) - 1


def seq_or_time(name: str, text: str, now: int) -> int | datetime:
    """An entry's number or a time; anything else is a mistake."""
    found = _read(name, text, now)
    if found is None:
        raise InvalidOption(
            f"{name} is {text[:64]!r}, which is neither an entry's number nor a time.", name=name
        )
    return found


def target(name: str, text: str, now: int) -> int | datetime | str:
    """An entry's number, a time or, if it is neither, the id of a message."""
    found = _read(name, text, now)
    return text if found is None else found


def whole(name: str, text: str) -> int:
    """An entry's number."""
    if not _SEQ.fullmatch(text):
        raise InvalidOption(f"{name} is {text[:64]!r}, which is no entry's number.", name=name)
    return _in_range(name, text)


def _read(name: str, text: str, now: int) -> int | datetime | None:
    if _SEQ.fullmatch(text):
        return _in_range(name, text)
    try:
        current = datetime.fromtimestamp(now / 1000, UTC)
        if text == "now":
            return current
        if ago := _AGO.fullmatch(text):
            return current - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _in_range(name: str, text: str) -> int:
    if len(text) > 20 or not 0 <= int(text) <= _LARGEST:
        raise InvalidOption(f"{name} is {text[:64]}, but entries are counted from 0.", name=name)
    return int(text)

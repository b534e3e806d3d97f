"""Times and entries as people write them on the command line.

An entry is named by its number, `last`, a time, or a message's id. A time without a zone is local,
as on all screens. A date without a time is its midnight.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from roocontext import reports
from roocontext.errors import InvalidOption, MessageNotFound

if TYPE_CHECKING:
    from roocontext import Session

EXAMPLES = "2026-01-31, '2026-01-31 09:30', 09:30, yesterday or '2h ago'"

_SEQ = re.compile(r"[+-]?[0-9]+")
_CLOCK = re.compile(r"[0-9]{1,2}:")
_PART = re.compile(r"([0-9]+) ?(seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d|weeks?|w) ?")
_AGO = re.compile(rf"(?:{_PART.pattern})+(?<= )ago")
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS = {"TODAY": timedelta(), "YESTERDAY": timedelta(days=1)}
_LARGEST = (1 << 63) - 1


def use_utc() -> None:
    """Show and read the times of this process in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def parse_moment(name: str, text: str, now: int) -> datetime:
    """A time, or a length of time before now such as `30d`; InvalidOption for anything else."""
    found = _read(name, f"{text} ago" if _LENGTH.fullmatch(text.strip().lower()) else text, now)
    if not isinstance(found, datetime):
        raise InvalidOption(
            f"{name} is {text[:64]!r}, which is no time; one is written as {EXAMPLES}, or 30d.",
            name=name,
        )
    return found


def target(name: str, text: str, now: int) -> int | datetime | str:
    """An entry's number, a time or, if it is neither, the text itself: it may name an entry."""
    found = _read(name, text, now)
    return text if found is None else found


def _read(name: str, text: str, now: int) -> int | datetime | None:
    if _SEQ.fullmatch(text):
        return _in_range(name, text)
    try:
        return _time(text.strip(), datetime.fromtimestamp(now / 1000, UTC).astimezone())
    except (ValueError, OverflowError):
        return None


def _time(text: str, now: datetime) -> datetime:
    if text.lower() == "now":
        return now
    if _AGO.fullmatch(text.lower()):
        parts = _PART.findall(text.lower())
        return now - sum((timedelta(**{_UNITS[u[0]]: int(n)}) for n, u in parts), timedelta())
    day, _, clock = text.upper().replace(" UTC", "+00:00").partition(" ")
    if _CLOCK.match(day) and not clock:
        day, clock = "TODAY", day
    if day in _DAYS:
        day = str((now - _DAYS[day]).date())
    padded = f"0{clock}" if clock[1:2] == ":" else clock
    found = datetime.fromisoformat(f"{day} {padded}".rstrip())
    return found if found.tzinfo else found.astimezone()


def _in_range(name: str, text: str) -> int:
    shown = f"{name} is {text[:64]}{'...' if text[64:] else ''}"
    if text.startswith("-") and text.strip("-0"):
        raise InvalidOption(
            f"{shown}, but entries are counted from 1, and 0 is the empty session.", name=name
        )
    if len(text) > 20 or int(text) > _LARGEST:
        raise InvalidOption(f"{shown}, which is too large for an entry's number.", name=name)
    return int(text)


def entry_number(chat: "Session", name: str, text: str, now: int) -> int:
    """The number of the entry that an argument names."""
    with naming(name, text):
        return reports.naming.entry_named(chat, target(name, text, now))


def point(chat: "Session", name: str, text: str, now: int) -> int | datetime:
    """The point of a session that an argument names: right after an entry, or a time."""
    found = target(name, text, now)
    return found if isinstance(found, datetime) else entry_number(chat, name, text, now)


def rewind_place(chat: "Session", name: str, text: str, now: int) -> int | datetime | str:
    """Where a rewind goes: only `last` is looked up here, because a rewind has its own rules."""
    found = target(name, text, now)
    return reports.naming.entry_named(chat, found) if found == reports.naming.LAST else found


@contextmanager
def naming(name: str, text: str | None) -> Iterator[None]:
    """Add to the error about a message's id that the text is nothing else that names an entry."""
    try:
        yield
    except MessageNotFound as error:
        if text is None or "message_id" not in error.facts:
            raise
        line = f"{name} is neither an entry's number, `last` nor a time, such as {EXAMPLES}."
        raise MessageNotFound(f"{line} {error.fact}", **error.facts) from None

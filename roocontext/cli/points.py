"""Times and entries as people write them on the command line.

An entry is named by its number, `last`, a time, or a message's id. A time without a zone is local,
as on all screens. A date without a time is its midnight.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

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


@dataclass(frozen=True, slots=True)
class Point:
    """An entry or a time, and the argument that names it."""

    argument: str
    target: int | datetime | str

    def entry(self, chat: "Session") -> int:
        """The number of the entry."""
        with explain_missing(self):
            return reports.naming.entry_named(chat, self.target)

    def in_log(self, chat: "Session") -> int | datetime:
        """The point of the log: right after an entry, or a time."""
        return self.target if isinstance(self.target, datetime) else self.entry(chat)

    def for_rewind(self, chat: "Session") -> int | datetime | str:
        """Where a rewind goes. Only `last` is looked up here, because a rewind has own rules."""
        return self.entry(chat) if self.target == reports.naming.LAST else self.target


@contextmanager
def explain_missing(point: Point | None) -> Iterator[None]:
    """If no message has the id, add that the text is not another name of an entry either."""
    try:
        yield
    except MessageNotFound as error:
        if point is None or "message_id" not in error.facts:
            raise
        line = f"{point.argument} is neither an entry's number, `last` nor a time"
        raise MessageNotFound(f"{line}, such as {EXAMPLES}. {error.fact}", **error.facts) from None


# Parameters: typer reads their text, and the callbacks what it means.


def read_point(ctx: typer.Context, param: typer.CallbackParam, text: str | None) -> Point | None:
    """Read an argument that names an entry or a time."""
    return None if text is None else _point(ctx, param, text)


def read_points(
    ctx: typer.Context, param: typer.CallbackParam, texts: list[str] | None
) -> list[Point]:
    """Read an argument that names entries."""
    return [_point(ctx, param, text) for text in texts or ()]


def read_moment(
    ctx: typer.Context, param: typer.CallbackParam, text: str | None
) -> datetime | None:
    """Read an option that names a time, or a length of time before now."""
    return None if text is None else parse_moment(_name(param), text, ctx.obj.clock())


def entry_option(help: str, metavar: str = "SEQ") -> Any:  # noqa: A002 - typer's word
    """An option that names an entry or a time."""
    return typer.Option(metavar=metavar, parser=str, callback=read_point, help=help)


def entry_argument(help: str, metavar: str = "SEQ") -> Any:  # noqa: A002 - typer's word
    """An argument that names an entry or a time."""
    return typer.Argument(metavar=metavar, parser=str, callback=read_point, help=help)


def time_option(help: str) -> Any:  # noqa: A002 - typer's word
    """An option that names a time, or a length of time before now."""
    return typer.Option(metavar="WHEN", parser=str, callback=read_moment, help=help)


def use_utc(*, wanted: bool) -> None:
    """Show and read the times of this process in UTC."""
    if wanted:
        os.environ["TZ"] = "UTC"
        time.tzset()


def _point(ctx: typer.Context, param: typer.CallbackParam, text: str) -> Point:
    name = _name(param)
    return Point(name, target(name, text, ctx.obj.clock()))


def _name(param: typer.CallbackParam) -> str:
    return param.opts[0] if param.param_type_name == "option" else str(param.metavar)


# The words themselves.


def parse_moment(name: str, text: str, now: int) -> datetime:
    """A time, or a length of time before now such as `30d`; InvalidOption for anything else."""
    is_length = _LENGTH.fullmatch(text.strip().lower())
    moment = target(name, f"{text} ago" if is_length else text, now)
    if not isinstance(moment, datetime):
        line = f"{name} is {text[:64]!r}, which is not a time. Write {EXAMPLES}, or 30d."
        raise InvalidOption(line, name=name)
    return moment


def target(name: str, text: str, now: int) -> int | datetime | str:
    """An entry's number, a time or, if it is neither, the text itself: it may name an entry."""
    if _SEQ.fullmatch(text):
        return _number(name, text)
    try:
        return _time(text.strip(), datetime.fromtimestamp(now / 1000, UTC).astimezone())
    except (ValueError, OverflowError):
        return text


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
    moment = datetime.fromisoformat(f"{day} {padded}".rstrip())
    return moment if moment.tzinfo else moment.astimezone()


def _number(name: str, text: str) -> int:
    value = f"{name} is {text[:64]}{'...' if text[64:] else ''}"
    if text.startswith("-") and text.strip("-0"):
        line = f"{value}, but entries are counted from 1, and 0 is the empty session."
        raise InvalidOption(line, name=name)
    if len(text) > 20 or int(text) > _LARGEST:
        raise InvalidOption(f"{value}, which is too large for an entry's number.", name=name)
    return int(text)

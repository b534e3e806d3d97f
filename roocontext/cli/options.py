"""The arguments and options that more than one command has.

Following a session: rows are shown as they are written, until an interrupt or a closed pipe.

`--where KEY=VALUE`: which sessions, by the strings of their metadata.

Entries as people name them on the command line: by number, `last`, a time, or a message's id.

Refuses a model whose context window is not known: a guess would cut the session to nothing.

Points of a session as people write them: an entry's number, a message's id, or a time.

A time without a zone is local, as on all screens. A date without a time is its midnight.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from roocontext.reports.history import EntryRow, MessageRow

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from roocontext.cli.exit_codes import Code, Refusal

if TYPE_CHECKING:
    from roocontext import ContextManager


import os
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from roocontext import reports
from roocontext.cli import completion, find_database
from roocontext.errors import InvalidOption, MessageNotFound

if TYPE_CHECKING:
    from roocontext import Session


RowT = TypeVar("RowT", bound="EntryRow | MessageRow")

PAUSE: Final = 0.5
"""Seconds between two looks at the session."""


def followed(last: int, newer: Callable[[int], Iterable[RowT]]) -> Iterator[RowT]:
    """The rows after entry `last`, and then those that are written, as `newer(seq)` reads them."""
    while True:
        for row in newer(last):
            last = max(last, row.seq)
            yield row
        sys.stdout.flush()  # a pipe would keep rows back until it has many
        time.sleep(PAUSE)


Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only sessions whose metadata has this string at its top level. Repeatable: all have"
        " to match.",
    ),
]


def conditions(given: list[str] | None) -> dict[str, str]:
    """The conditions, by key."""
    found: dict[str, str] = {}
    for one in given or []:
        key, equals, value = one.partition("=")
        if not equals or key in found:
            line = f"--where takes KEY=VALUE, each key once; this was {one!r}."
            raise Refusal(line, Code.USAGE)
        found[key] = value
    return found


_OR_LIMIT = "give the size of its context window with --limit"


def check_given(model: str | None) -> str | None:
    """Accept the model of --model for a command that only reads, or none."""
    if model and not _is_known(model):
        raise Refusal(f"{_unknown(model)}.", Code.USAGE)
    return model


def check_window(manager: "ContextManager") -> None:
    """Let a manager change a session only if the size of the context window is known."""
    from roocontext.tokens.limits import DEFAULT  # noqa: PLC0415 - reads a data file

    settings = manager.settings
    if settings.window().source != DEFAULT or _is_known(settings.model):
        return
    if not settings.model:
        line = f"The session names no model: name it with --model, or {_OR_LIMIT}."
        raise Refusal(line, Code.USAGE)
    raise Refusal(f"{_unknown(settings.model)}, or {_OR_LIMIT}.", Code.USAGE)


def _is_known(model: str) -> bool:
    from roocontext.tokens.limits import DEFAULT, limit_for  # noqa: PLC0415 - reads a data file

    return limit_for(model).source != DEFAULT


def _unknown(model: str) -> str:
    from roocontext.tokens.limits import models  # noqa: PLC0415 - reads a data file

    near = get_close_matches(model.lower()[:64], models(), n=3, cutoff=0.4)
    nearest = f" The nearest names are {', '.join(near)}." if near else ""
    return f"The model {model[:64]!r} is not known.{nearest} Name another with --model"


PROGRAM = "roocontext"
MODEL = "ROOCONTEXT_MODEL"
DB_HELP = (
    f"The database: a file or a URL. Default: {find_database.VARIABLE}, or"
    " ~/.local/share/roocontext/roocontext.db."
)

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", envvar=find_database.VARIABLE, show_envvar=False, help=DB_HELP
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Utc = Annotated[bool, typer.Option("--utc", help="Show and read times in UTC.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]

SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's id or the beginning of it, with or without the part up to its colon;"
        " `last`, `last~1` for the one before, or `=` followed by the whole id.",
        autocompletion=completion.complete_sessions,
        show_default=False,
    ),
]
SessionOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="The session. Default: all sessions.",
        autocompletion=completion.complete_sessions,
    ),
]
_MODEL_HELP = (
    "The model whose context window and token counter are used. Default:"
    f" {MODEL}, or the model that the session's newest message names."
)
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=_MODEL_HELP,
        autocompletion=completion.complete_models,
        callback=check_given,
    ),
]
ModelOrLimit = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=f"{_MODEL_HELP} One that is not known needs --limit.",
        autocompletion=completion.complete_models,
    ),
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-seq",
        metavar="SEQ",
        min=0,
        help="Refuse if the session has changed since `show --json` printed this `head_seq`.",
    ),
]
Recorded = Annotated[
    bool,
    typer.Option(
        "--recorded",
        help="Go by when the store recorded things, not by when they happened. The two differ for"
        " what was imported.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


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


WAYS = "its number, `last`, a message's id, or a time such as `09:30` or `2h ago`"
"""How an entry is named, for the help of a command."""


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
